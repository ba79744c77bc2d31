package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/histogram/samples"
)

const (
	// maxMissing, maxServices, maxProcessors and maxBusyShards limit the lists of Figures.
	maxMissing, maxServices, maxProcessors, maxBusyShards = 20, 500, 1000, 20
	// figuresPerSecond limits how often all nodes are asked.
	figuresPerSecond = 4
	// hotFactor and hotPerSecond define a hot shard: it has so many times the mean of all shards, and so many turns per
	// second.
	hotFactor, hotPerSecond = 10, 10
)

// Figures is the body of /cluster/figures: services, processors and busy shards of the whole cluster, and samples of
// its recent past. The answering node asks every other one. Counters start with each node.
type Figures struct {
	NodeID string    `json:"node_id"` // advertise address of the answering node
	ReadAt time.Time `json:"read_at"`
	// SampleSeconds is the interval of samples.
	SampleSeconds float64 `json:"sample_seconds"`
	Nodes         int     `json:"nodes"` // that were asked
	// Missing lists nodes whose figures are not included, at most 20; MissingCount counts all of them.
	Missing      []MissingNode      `json:"missing"`
	MissingCount int                `json:"missing_count"`
	Services     []ClusterService   `json:"services"`   // by name, at most 500
	Processors   []ClusterProcessor `json:"processors"` // by name and node, at most 1000
	Busy         []BusyShard        `json:"busy"`       // the busiest first, at most 20
	// Samples are those of the whole cluster after ?since=, the oldest first, at most those of an hour; Own are those of
	// the answering node.
	Samples []stats.Sample `json:"samples"`
	Own     []stats.Sample `json:"own"`
}

// MissingNode is a node that did not report its figures.
type MissingNode struct {
	Address string `json:"address"`
	Error   string `json:"error"`
}

// ClusterService is one service of objects in the whole cluster.
type ClusterService struct {
	Name    string `json:"name"`
	Nodes   int    `json:"nodes"`   // that host it
	Active  int64  `json:"active"`  // objects
	Waiting int64  `json:"waiting"` // calls
	Calls   int64  `json:"calls"`   // that have ended
	// Failed counts the calls that failed because of the service, not of the caller, and those that were never started.
	Failed int64 `json:"failed"`
	Panics int64 `json:"panics"`
	// CallsPerSecond and FailedPerSecond are the rates of the last 20 to 40 s.
	CallsPerSecond  float64 `json:"calls_per_second"`
	FailedPerSecond float64 `json:"failed_per_second"`
	// Latency is the duration of methods, of one call in eight. Queued is the time that calls waited for their turn, of
	// those that had to wait.
	Latency ObjectTimes `json:"latency"`
	Queued  ObjectTimes `json:"queued"`
}

// ClusterProcessor is one processor on one node.
type ClusterProcessor struct {
	Node string `json:"node"` // advertise address
	ProcessorView
}

// BusyShard is a shard with many turns.
type BusyShard struct {
	Shard          int     `json:"shard"`
	Node           string  `json:"node"`             // advertise address of its owner
	TurnsPerSecond float64 `json:"turns_per_second"` // of the last 20 to 40 s
	// Hot is set if the shard has at least ten turns per second and ten times the mean of all shards.
	Hot bool `json:"hot"`
}

// serveFigures asks every node, once a second for all requests with the same since, and at most a few times a second.
func (a *api) serveFigures(w http.ResponseWriter, r *http.Request) {
	now, since := time.Now(), time.Time{}
	if !readQuery(w, r, "?since=TIME", map[string]queryParameter{"since": func(value string) (err error) {
		since, err = readSince(value, now)
		return err
	}}) {
		return
	}
	c := a.runningCluster(w, "figures")
	if c == nil {
		return
	}
	if !since.IsZero() {
		since = roundSince(since, now)
	}
	body, err := a.figures.get(r.Context(), fmt.Sprint("figures ", since.Unix()), a.opts.LeaderTimeout,
		func(ctx context.Context) (any, error) {
			all, err := c.Figures(ctx, since)
			if err != nil {
				return nil, err
			}
			return newFigures(a.source.Status(), all), nil
		})
	if err != nil {
		writeErrorProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// newFiguresCache returns a cache that asks all nodes once at a time, and a few times a second.
func newFiguresCache() *cache {
	c := newCache(listTTL, 1)
	c.readRate = rate.NewLimiter(figuresPerSecond, 2*figuresPerSecond)
	return c
}

// roundSince returns a time just before the first sample that ends at since or later, at most an hour back. Callers
// that ask within one interval so have the same question.
func roundSince(since, now time.Time) time.Time {
	if oldest := now.Add(-samples.Limit * samples.Every); since.Before(oldest) {
		since = oldest
	}
	return since.Add(samples.Every - 1).Truncate(samples.Every).Add(-1)
}

// newFigures merges the figures of all nodes.
func newFigures(st cluster.Status, all []cluster.Figures) Figures {
	body := Figures{NodeID: st.NodeID, ReadAt: time.Now().UTC(), SampleSeconds: samples.Every.Seconds(), Nodes: len(all),
		Missing: []MissingNode{}, Services: []ClusterService{}, Processors: []ClusterProcessor{}, Busy: []BusyShard{},
		Own: []stats.Sample{}}
	var past [][]stats.Sample
	services := map[string]*serviceSum{}
	for _, f := range all {
		if f.Error != "" {
			body.MissingCount++
			if len(body.Missing) < maxMissing {
				body.Missing = append(body.Missing, MissingNode{f.Address, f.Error})
			}
			continue
		}
		past = append(past, f.Samples)
		if f.Address == st.NodeID {
			body.Own = append(body.Own, f.Samples...)
		}
		for _, s := range f.Services {
			addService(services, s)
		}
		for _, p := range f.Processors {
			body.Processors = append(body.Processors, ClusterProcessor{f.Address, newProcessorView(p)})
		}
		for _, b := range f.Busy {
			body.Busy = append(body.Busy, BusyShard{Shard: b.Shard, Node: f.Address, TurnsPerSecond: b.TurnsPerSecond})
		}
	}
	total := 0.0 // calls per second
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s := services[name].view()
		total += s.CallsPerSecond
		body.Services = append(body.Services, s)
	}
	body.Services = body.Services[:min(len(body.Services), maxServices)]
	slices.SortFunc(body.Processors, func(a, b ClusterProcessor) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	body.Processors = body.Processors[:min(len(body.Processors), maxProcessors)]
	body.Busy = markHot(body.Busy, total, st.Shards.Shards)
	body.Samples = samples.Merge(past)
	return body
}

// markHot sorts shards, the busiest first, and marks the hot ones. calls is the rate of all shards.
func markHot(busy []BusyShard, calls float64, shards int) []BusyShard {
	slices.SortFunc(busy, func(a, b BusyShard) int {
		return cmp.Or(cmp.Compare(b.TurnsPerSecond, a.TurnsPerSecond), cmp.Compare(a.Shard, b.Shard),
			strings.Compare(a.Node, b.Node))
	})
	busy = busy[:min(len(busy), maxBusyShards)]
	for i, b := range busy {
		busy[i].Hot = shards > 1 && b.TurnsPerSecond >= hotPerSecond && b.TurnsPerSecond >= hotFactor*calls/float64(shards)
	}
	return busy
}

// serviceSum adds up one service over the nodes.
type serviceSum struct {
	of              ClusterService
	latency, queued stats.Durations
}

func addService(sums map[string]*serviceSum, s cluster.ServiceFigures) {
	sum := sums[s.Name]
	if sum == nil {
		sum = &serviceSum{of: ClusterService{Name: s.Name}}
		sums[s.Name] = sum
	}
	sum.of.Nodes++
	sum.of.Active += s.Active
	sum.of.Waiting += s.Waiting
	sum.of.Calls += s.Calls
	sum.of.Failed += s.Failed
	sum.of.Panics += s.Panics
	sum.of.CallsPerSecond = samples.FiniteSum(sum.of.CallsPerSecond, s.CallsPerSecond)
	sum.of.FailedPerSecond = samples.FiniteSum(sum.of.FailedPerSecond, s.FailedPerSecond)
	sum.latency = addDurations(sum.latency, s.Latency)
	sum.queued = addDurations(sum.queued, s.Queued)
}

func (s *serviceSum) view() ClusterService {
	s.of.Latency, s.of.Queued = summarizeTimes(s.latency), summarizeTimes(s.queued)
	return s.of
}

// addDurations adds two histograms. Nodes of another version may have other bounds: a bound counts the durations that
// both histograms are known to have below it.
func addDurations(a, b stats.Durations) stats.Durations {
	sum := stats.Durations{Count: a.Count + b.Count, Sum: a.Sum + b.Sum}
	bounds := map[time.Duration]bool{}
	for _, x := range append(slices.Clone(a.Buckets), b.Buckets...) {
		bounds[x.AtMost] = true
	}
	for _, bound := range slices.Sorted(maps.Keys(bounds)) {
		sum.Buckets = append(sum.Buckets, stats.Bucket{AtMost: bound, Count: countUpTo(a, bound) + countUpTo(b, bound)})
	}
	return sum
}

// countUpTo returns the number of durations known not to exceed the bound.
func countUpTo(d stats.Durations, bound time.Duration) (n int64) {
	for _, b := range d.Buckets {
		if b.AtMost <= bound {
			n = b.Count
		}
	}
	return n
}

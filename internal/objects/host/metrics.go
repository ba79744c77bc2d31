package host

import (
	"sort"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/histogram"
)

// serviceMetrics holds the metrics of one service.
type serviceMetrics struct {
	active, waiting, panics       atomic.Int64
	reasons                       [len(reasonNames)]atomic.Int64 // deactivations by reason
	latency, queued               *histogram.Durations
	lastWarning, unwarnedFailures atomic.Int64 // the last log line about failed activations, and the failures since
}

// callCounts counts the calls of a method by code. Calls are spread over stripes by shard, so calls on several
// processors seldom write to the same cache line.
type callCounts [8]countStripe

type countStripe struct {
	counts [codes.Unauthenticated + 1]atomic.Int64
	_      [56]byte
}

func (o *callCounts) count(shard int, code codes.Code) {
	o[shard%len(o)].count(code)
}

func (s *countStripe) count(code codes.Code) {
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	s.counts[code].Add(1)
}

// read returns the number of calls by code.
func (o *callCounts) read() map[codes.Code]int64 {
	calls := map[codes.Code]int64{}
	for i := range o {
		o[i].read(calls)
	}
	return calls
}

// countRefused counts a call that was not started and is not tried elsewhere.
func (m *Method) countRefused(err error) {
	if m.isTick || IsMoved(err) {
		return
	}
	m.refused.count(status.Code(err))
}

func (s *countStripe) read(calls map[codes.Code]int64) {
	for code := range s.counts {
		if n := s.counts[code].Load(); n > 0 {
			calls[codes.Code(code)] += n
		}
	}
}

// reasonNames lists the reasons of deactivations in the order of serviceMetrics.reasons.
var reasonNames = [...]objects.Reason{objects.Idle, objects.Evicted, objects.Moved, objects.Stopping, objects.Lost,
	objects.Failed, objects.Requested}

func (f *serviceMetrics) countDeactivated(reason objects.Reason) {
	f.active.Add(-1)
	for i, name := range reasonNames {
		if name == reason {
			f.reasons[i].Add(1)
		}
	}
}

// latencyBounds are the upper bounds of the histograms: from a call in memory to a call that waits for others.
var latencyBounds = []time.Duration{10 * time.Microsecond, 100 * time.Microsecond,
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
	300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}

// Stats returns the metrics of all services, in the order of their names. It does not block.
func (t *Services) Stats() []objects.ServiceStats {
	all := make([]objects.ServiceStats, 0, len(t.byName))
	for _, s := range t.byName {
		f := &s.metrics
		one := objects.ServiceStats{Name: s.name, Active: f.active.Load(), Waiting: f.waiting.Load(),
			Panics: f.panics.Load(), Latency: f.latency.Snapshot(), Queued: f.queued.Snapshot(),
			Deactivations: map[objects.Reason]int64{}}
		for i, name := range reasonNames {
			one.Deactivations[name] = f.reasons[i].Load()
		}
		for _, m := range s.methods {
			stats := objects.MethodStats{Name: m.shortName, Calls: m.outcomes.read(), Refused: map[codes.Code]int64{}}
			m.refused.read(stats.Refused)
			one.Methods = append(one.Methods, stats)
		}
		all = append(all, one)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// RunningTurns returns the number of turns that run on the node. It locks each shard in turn.
func (h *Host) RunningTurns() (turns int) {
	for n := range h.shards {
		s := &h.shards[n]
		s.mu.Lock()
		turns += s.running
		s.mu.Unlock()
	}
	return turns
}

// TurnsByShard returns the number of turns that have begun in each shard since the node's start. It locks each shard in
// turn.
func (h *Host) TurnsByShard() []int64 {
	turns := make([]int64, len(h.shards))
	for n := range h.shards {
		s := &h.shards[n]
		s.mu.Lock()
		turns[n] = s.begun
		s.mu.Unlock()
	}
	return turns
}

// DescribeObjects describes the objects with that key in a shard of this node, at most one of each service, in the
// order of the services' names.
func (h *Host) DescribeObjects(n int, key string) (all []objects.Activity) {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range h.services.byName {
		if o := s.objects[objectID{service, key}]; o != nil {
			all = append(all, o.describeActivity())
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Service < all[j].Service })
	return all
}

// describeActivity describes the object for operators. The caller holds the shard's lock.
func (o *object) describeActivity() objects.Activity {
	a := objects.Activity{Service: o.service.name, Epoch: o.epoch, State: o.phase.String(),
		Waiting: int(o.turns.queued), Running: int(o.turns.beside)}
	if o.turns.exclusive != 0 && o.phase == phaseActive {
		a.Running++
	}
	if !o.since.IsZero() {
		a.Age = time.Since(o.since)
	}
	return a
}

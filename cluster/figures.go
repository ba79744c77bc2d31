package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/histogram/samples"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Limits of a request for the figures of all nodes.
const (
	// figuresTimeout limits the time that one node may take to answer.
	figuresTimeout = time.Second
	// maxFiguresBytes limits the bytes of a node's answer.
	maxFiguresBytes = 1 << 20
	// figuresAtOnce limits the nodes that are asked at a time.
	figuresAtOnce = 32
	// maxFiguresList limits the services and the processors that a node reports.
	maxFiguresList = 200
	// maxFiguresText limits the bytes of the error of a processor.
	maxFiguresText = 200
)

// Figures holds the figures of one node, for operators. Counters start with the node.
type Figures struct {
	Address string `json:"address"`
	// Error is the reason why the node's figures are missing, in one line; "" if they are there.
	Error string `json:"error,omitempty"`
	// Services lists the node's services of objects, by name, at most 200.
	Services []ServiceFigures `json:"services,omitempty"`
	// Processors lists the node's processors if the program reports them with ReportProcessors, at most 200.
	Processors []processor.Status `json:"processors,omitempty"`
	// Busy lists the shards on the node with most turns, the busiest first, at most 8.
	Busy []ShardFigures `json:"busy,omitempty"`
	// Samples lists the requested samples of the last hour, the oldest first.
	Samples []stats.Sample `json:"samples,omitempty"`
}

// ServiceFigures holds the figures of one service of objects on one node.
type ServiceFigures struct {
	Name    string `json:"name"`
	Active  int64  `json:"active"`  // objects
	Waiting int64  `json:"waiting"` // calls
	Calls   int64  `json:"calls"`   // that have ended
	// Failed counts the calls that failed because of the service, not of the caller, and those that were never started.
	Failed int64 `json:"failed"`
	Panics int64 `json:"panics"`
	// CallsPerSecond and FailedPerSecond are the rates of the last 20 to 40 s.
	CallsPerSecond  float64 `json:"calls_per_second"`
	FailedPerSecond float64 `json:"failed_per_second"`
	// Latency and Queued are those of objects.ServiceStats.
	Latency stats.Durations `json:"latency"`
	Queued  stats.Durations `json:"queued"`
}

// ShardFigures holds the figures of one shard on the node that serves it.
type ShardFigures struct {
	Shard          int     `json:"shard"`
	TurnsPerSecond float64 `json:"turns_per_second"` // of the last 20 to 40 s
}

// ReportProcessors has the node include the processors that ask returns in its figures and samples: for example, the
// Status of a processor.Group. A later call replaces ask. ask is not called concurrently with itself. If it takes
// longer than half a second, or panics, the figures have no processors. Stop does not wait for ask. ReportProcessors
// may be called before Start.
func (c *Cluster) ReportProcessors(ask func() []processor.Status) { c.history.report.Store(&ask) }

// Figures returns the figures of every registered node that can be dialed, by address, with their samples after a time;
// the zero time means none. It asks the nodes over gRPC, many at a time. A node that fails, answers with more than
// 1 MiB, or does not answer within a second or before ctx ends is listed with an error. Nodes of versions without
// figures are, too. Figures blocks until all have answered or failed. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) Figures(ctx context.Context, after time.Time) ([]Figures, error) {
	p, err := c.runningParts()
	if err != nil {
		return nil, err
	}
	members := p.Mirror.Snapshot().MembersWithServer()
	all, slots := make([]Figures, len(members)), make(chan struct{}, figuresAtOnce)
	var asked sync.WaitGroup
	for i, m := range members {
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			if m.Address == c.node.AdvertiseAddress() {
				all[i] = c.ownFigures(ctx, p, after)
				return
			}
			all[i] = c.askFigures(ctx, p, m.Address, after)
		})
	}
	asked.Wait()
	return all, nil
}

// askFigures asks another node.
func (c *Cluster) askFigures(ctx context.Context, p *nodeParts, address string, after time.Time) Figures {
	ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
	defer cancel()
	failed := func(text string) Figures { return Figures{Address: address, Error: text} }
	conn, err := p.objects.pool.Conn(address)
	if err != nil {
		return failed(logtext.OneLine(err))
	}
	req := &objectspb.DescribeRequest{Prefix: c.cfg.EtcdPrefix, Figures: true, SamplesAfter: samplesAfter(after)}
	resp, err := objectspb.NewObjectsClient(conn).Describe(ctx, req, grpc.MaxCallRecvMsgSize(maxFiguresBytes))
	switch code := status.Code(err); {
	case ctx.Err() != nil, code == codes.DeadlineExceeded, code == codes.Canceled: // the node may notice the time first
		return failed("no answer in time")
	case code == codes.Unimplemented, err == nil && len(resp.GetFigures()) == 0:
		return failed("it runs a version without figures")
	case err != nil:
		return failed(logtext.OneLine(errors.New(status.Convert(err).Message())))
	}
	var f Figures
	if err := json.Unmarshal(resp.GetFigures(), &f); err != nil {
		return failed("its answer cannot be read: " + logtext.OneLine(err))
	}
	f.Address, f.Error = address, "" // whatever it says of itself
	f.limit()
	return f
}

// limit shortens the lists and texts that a node sends too long.
func (f *Figures) limit() {
	f.Services = f.Services[:min(len(f.Services), maxFiguresList)]
	f.Processors = f.Processors[:min(len(f.Processors), maxFiguresList)]
	for i, p := range f.Processors {
		f.Processors[i].LastError = p.LastError[:min(len(p.LastError), maxFiguresText)]
	}
	f.Busy = f.Busy[:min(len(f.Busy), samples.MaxBusy)]
	f.Samples = f.Samples[max(0, len(f.Samples)-samples.Limit):]
}

// samplesAfter returns the time of a request in milliseconds since 1970, 0 for no samples.
func samplesAfter(after time.Time) int64 {
	if after.IsZero() {
		return 0
	}
	return max(1, after.UnixMilli())
}

// describeFigures returns this node's figures in the form in which nodes send them.
func (c *Cluster) describeFigures(ctx context.Context, p *nodeParts, req *objectspb.DescribeRequest) ([]byte, error) {
	after := time.Time{}
	if ms := req.GetSamplesAfter(); ms > 0 {
		after = time.UnixMilli(ms)
	}
	return json.Marshal(c.ownFigures(ctx, p, after))
}

// ownFigures returns this node's figures.
func (c *Cluster) ownFigures(ctx context.Context, p *nodeParts, after time.Time) Figures {
	f := Figures{Address: c.node.AdvertiseAddress()}
	reported := c.history.processors(ctx)
	f.Processors = slices.Clone(reported)
	now, services := c.readFigures(p, reported)
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	rates := c.history.past.ServiceRates(now)
	for _, s := range services {
		calls := countCalls(s)
		f.Services = append(f.Services, ServiceFigures{Name: s.Name, Active: s.Active, Waiting: s.Waiting,
			Calls: calls.Ended, Failed: calls.Failed, Panics: s.Panics, CallsPerSecond: rates[s.Name].Calls,
			FailedPerSecond: rates[s.Name].Failed, Latency: s.Latency, Queued: s.Queued})
	}
	for _, b := range c.history.past.Busy(now) {
		f.Busy = append(f.Busy, ShardFigures{Shard: b.Shard, TurnsPerSecond: b.PerSecond})
	}
	if !after.IsZero() {
		f.Samples = c.history.past.After(after)
	}
	f.limit()
	return f
}

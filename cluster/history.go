package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/histogram/samples"
	"github.com/goverse/goverse/internal/wait"
)

// history keeps samples of this node's figures. The zero value is ready.
type history struct {
	report atomic.Pointer[func() []processor.Status] // nil: the program reports no processors
	asked  singleflight.Group

	mu   sync.Mutex
	past samples.History
}

// reportTimeout is how long the program may take to report its processors.
const reportTimeout = 500 * time.Millisecond

// processors returns the processors that the program reports. There are none if its function panics, exits its
// goroutine, or does not return in time. It is not called again before it has returned.
func (h *history) processors(ctx context.Context) []processor.Status {
	report := h.report.Load()
	if report == nil || *report == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	reported := h.asked.DoChan("", func() (all any, err error) {
		err = callback.Run(func() error { all = (*report)(); return nil })
		return all, err
	})
	select {
	case r := <-reported:
		all, _ := r.Val.([]processor.Status) // nil: it failed
		return all
	case <-ctx.Done():
		return nil
	}
}

// recordHistory takes a reading at each multiple of samples.Every, until ctx ends.
func (c *Cluster) recordHistory(ctx context.Context, p *nodeParts) {
	take := func() {
		now, _ := c.readFigures(p, c.history.processors(ctx))
		c.history.mu.Lock()
		defer c.history.mu.Unlock()
		c.history.past.Add(now)
	}
	for take(); wait.For(ctx, untilNextSample(time.Now())); take() {
	}
}

// untilNextSample returns the time until the next reading is due.
func untilNextSample(now time.Time) time.Duration {
	return now.Truncate(samples.Every).Add(samples.Every).Sub(now)
}

// readFigures reads this node's counters. reported are its processors.
func (c *Cluster) readFigures(p *nodeParts, reported []processor.Status) (samples.Reading, []objects.ServiceStats) {
	r := samples.Reading{At: time.Now().Round(0), Failovers: p.events.Failovers().Elected,
		Services: map[string]samples.Calls{}, Lag: lagOf(reported)}
	r.Renewals, r.RenewalsFailed = p.Keeper.Renewals().Read()
	services := p.objects.services.Stats()
	for _, s := range services {
		r.Services[s.Name] = countCalls(s)
		r.Queued.Count += s.Queued.Count
		r.Queued.Sum += s.Queued.Sum
	}
	if p.objects.host != nil {
		r.Turns = p.objects.host.TurnsByShard()
	}
	return r, services
}

// lagOf returns the number of events that wait for the processors which run here, -1 if it is unknown.
func lagOf(all []processor.Status) int64 {
	lag := int64(-1)
	for _, s := range all {
		if s.Leading && s.Lag >= 0 {
			lag = max(lag, 0) + s.Lag
		}
	}
	return lag
}

// countCalls counts the calls of a service.
func countCalls(s objects.ServiceStats) (calls samples.Calls) {
	for _, m := range s.Methods {
		for code, n := range m.Calls {
			calls.Ended += n
			if failedByService(code) {
				calls.Failed += n
			}
		}
		for _, n := range m.Refused {
			calls.Failed += n
		}
	}
	return calls
}

// failedByService reports whether a call with that code failed because of the service, not because of its caller.
func failedByService(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// Samples returns this node's samples of the last hour, the oldest first, one for every 20 s that have passed. The
// caller owns the slice. Samples does not block. It is nil before Start has returned and after Stop.
func (c *Cluster) Samples() []stats.Sample {
	if c.parts.Load() == nil {
		return nil
	}
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	return c.history.past.After(time.Time{})
}

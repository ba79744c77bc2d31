package eventlog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
)

const (
	// settle is how long an event waits for others that are recorded with it: not beside a handover.
	settle = 50 * time.Millisecond
	// deputyAfter is how long the recorder waits for a former leader to say itself why its term ended.
	deputyAfter = 2 * time.Second
	// pruneEvery is how often the recorder looks for what is too old, beside when it records.
	pruneEvery = time.Hour
)

// retryPolicy is that of a write that failed, and deniedRetry of one that etcd does not allow.
var retryPolicy = backoff.Policy{First: 200 * time.Millisecond, Last: 10 * time.Second}

const deniedRetry = time.Minute

// writer records events in etcd, in the background.
type writer struct {
	cfg  Config
	wake chan struct{}
	// failing: etcd did not take what was written last.
	failing atomic.Bool

	mu      sync.Mutex
	pending []pending // oldest first

	// Of run's goroutine:
	records bool // this node was the recorder when it looked last
	pruned  time.Time
	retry   backoff.Backoff
}

// pending is an event that is not known to be recorded.
type pending struct {
	event.Event
	own bool      // this node records it, whichever is the recorder
	due time.Time // not before
}

func newWriter(cfg Config) *writer {
	return &writer{cfg: cfg, wake: make(chan struct{}, 1), retry: backoff.Backoff{Policy: retryPolicy}}
}

// add takes an event to be recorded after a while. What the node knows best takes the place of what was derived.
func (w *writer) add(e event.Event, own bool, after time.Duration) {
	w.mu.Lock()
	p := pending{Event: e, own: own, due: time.Now().Add(after)}
	switch i := slices.IndexFunc(w.pending, func(p pending) bool { return p.ID == e.ID }); {
	case i < 0:
		if len(w.pending) == maxRecent {
			w.pending = slices.Delete(w.pending, 0, 1)
		}
		w.pending = append(w.pending, p)
	case own:
		w.pending[i] = p
	}
	w.mu.Unlock()
	signal(w.wake)
}

// forget drops what is pending but for what this node alone knows.
func (w *writer) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(p pending) bool { return !p.own })
}

func (w *writer) withdraw(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(p pending) bool { return p.ID == id })
}

// run records until ctx ends.
func (w *writer) run(ctx context.Context) {
	timer := time.NewTimer(pruneEvery)
	defer timer.Stop()
	for {
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(w.step(ctx))
	}
}

// leave records what is pending, or what this node alone knows, if etcd answered the last time.
func (w *writer) leave(ctx context.Context, all bool) {
	if !w.failing.Load() {
		_, _ = w.flush(ctx, func(p pending) bool { return all || p.own }) // best effort
	}
}

// step records what is due, and returns after which time to look again.
func (w *writer) step(ctx context.Context) time.Duration {
	snap := w.cfg.Mirror.Snapshot()
	if snap == nil || !w.cfg.Valid() {
		w.records = false
		return time.Second
	}
	records := recorder(snap) == w.cfg.Address
	if err := w.record(ctx, records, time.Now()); err != nil {
		return w.failed(ctx, err)
	}
	w.failing.Store(false)
	w.retry.Reset()
	w.records = records
	return w.next(records, time.Now())
}

func (w *writer) record(ctx context.Context, records bool, now time.Time) error {
	if records && !w.records {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	wrote, err := w.flush(ctx, func(p pending) bool { return (p.own || records) && !p.due.After(now) })
	if err != nil || !records || wrote == 0 && now.Sub(w.pruned) < pruneEvery {
		return err
	}
	w.pruned = now
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	return prune(ctx, w.cfg.Client, w.cfg.Keys, w.cfg.Max, now.Add(-w.cfg.MaxAge))
}

// catchUp forgets what is in the log already, or was, or what the log disproves: the former recorder was there until
// now.
func (w *writer) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	events, _, _, err := List(ctx, w.cfg.Client, w.cfg.Keys, Query{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = missing(w.pending, events, w.cfg.Max, time.Now().Add(-w.cfg.MaxAge))
	w.pending = slices.DeleteFunc(w.pending, func(p pending) bool {
		return !p.own && disproved(p.Event, events, w.cfg.Address)
	})
	return nil
}

// disproved reports whether an event says that nobody led for a time in which, as another node recorded, a leader was
// elected: this node, self, was cut off alone, and leads on its return.
func disproved(e event.Event, log []event.Event, self string) bool {
	from := e.Time
	switch e.Type {
	case event.ClusterDegraded:
	case event.ClusterRecovered:
		from = e.Time.Add(-time.Duration(e.Seconds * float64(time.Second)))
	default:
		return false
	}
	return slices.ContainsFunc(log, func(other event.Event) bool {
		return other.Type == event.LeaderElected && other.RecordedBy != self && other.Time.After(from)
	})
}

// missing are those of the pending events that the log, which keeps most and none from before the horizon, lacks. What
// it may have had and has deleted since is not: where it is full, what is no newer than its oldest event.
func missing(all []pending, events []event.Event, most int, horizon time.Time) []pending {
	ids, oldest := make(map[string]bool, len(events)), int64(0)
	for _, e := range events {
		ids[e.ID] = true
	}
	if len(events) > 0 && len(events) >= most*9/10 {
		oldest = slices.MinFunc(events, byRevision).Revision
	}
	return slices.DeleteFunc(all, func(p pending) bool {
		return ids[p.ID] || !p.own && (p.Revision <= oldest || p.Time.Before(horizon))
	})
}

// flush records the pending events that are to be, and returns how many those were.
func (w *writer) flush(ctx context.Context, is func(pending) bool) (wrote int, err error) {
	for {
		w.mu.Lock()
		var events []event.Event
		for _, p := range w.pending {
			if len(events) < batch && is(p) {
				p.RecordedBy = w.cfg.Address
				events = append(events, p.Event)
			}
		}
		w.mu.Unlock()
		if len(events) == 0 {
			return wrote, nil
		}
		request, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
		err := record(request, w.cfg.Client, w.cfg.Keys, events)
		cancel()
		if err != nil {
			return wrote, err
		}
		wrote += len(events)
		w.mu.Lock()
		w.pending = slices.DeleteFunc(w.pending, func(p pending) bool {
			return slices.ContainsFunc(events, func(e event.Event) bool { return e.ID == p.ID })
		})
		w.mu.Unlock()
	}
}

// next is after which time something is due.
func (w *writer) next(records bool, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := pruneEvery
	for _, p := range w.pending {
		if p.own || records {
			after = min(after, max(p.due.Sub(now), time.Millisecond))
		}
	}
	return after
}

// failed says once that nothing can be recorded, and returns after which time to try again.
func (w *writer) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return pruneEvery // it ends
	}
	w.failing.Store(true)
	first := w.retry.Failures() == 0
	after := w.retry.Next()
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		after = deniedRetry
		if first {
			w.cfg.Logger.Warn("etcd does not let this node record events: grant its user READ and WRITE on the prefix, or "+
				"turn the event log off", "prefix", w.cfg.Keys.Events())
		}
	} else if first {
		w.cfg.Logger.Debug("could not record events, retrying", "error", err)
	}
	return after
}

// recorder is the address of the member that records what all see; "" without members.
func recorder(s *state.Snapshot) string {
	if m := s.Planner(); m != nil {
		return m.Address
	}
	registered := s.Registered()
	if len(registered) == 0 {
		return ""
	}
	return slices.MinFunc(registered, func(a, b *state.Member) int {
		return cmp.Compare(a.Incarnation, b.Incarnation)
	}).Address
}

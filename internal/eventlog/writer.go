package eventlog

import (
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
	"github.com/goverse/goverse/internal/wait"
)

const (
	// batchDelay is the delay for which an event waits for others that are recorded with it. It also keeps the
	// write away from a handover.
	batchDelay = 50 * time.Millisecond
	// deputyDelay is the time for which the recorder waits for a former leader to report itself why its term
	// ended.
	deputyDelay = 2 * time.Second
	// pruneEvery is the interval at which the recorder deletes old events, in addition to each time it records.
	pruneEvery = time.Hour
)

// retryPolicy is the policy for the delay after a failed write, and deniedRetry the delay after one that etcd
// denied.
var retryPolicy = backoff.Policy{First: 200 * time.Millisecond, Last: 10 * time.Second}

const deniedRetry = time.Minute

// writer records events in etcd, in the background.
type writer struct {
	cfg  Config
	wake wait.Signal
	// failing means that the last write failed.
	failing atomic.Bool
	// wroteCommands means that operators' requests were recorded and may have to be pruned.
	wroteCommands atomic.Bool

	mu      sync.Mutex
	pending []pendingEvent // oldest first

	// Used by run's goroutine alone:
	wasRecorder bool // this node was the recorder at the last step
	pruned      time.Time
	retry       backoff.Backoff
}

// pendingEvent is an event that is not known to be recorded yet.
type pendingEvent struct {
	event.Event
	own bool      // this node records it even if it is not the recorder
	due time.Time // earliest time to record it
}

func newWriter(cfg Config) *writer {
	return &writer{cfg: cfg, wake: wait.NewSignal(), retry: backoff.Backoff{Policy: retryPolicy, Random: cfg.Random}}
}

// addPending queues an event to be recorded after a delay. An event of which this node has the exact facts (own)
// replaces a derived one.
func (w *writer) addPending(e event.Event, own bool, after time.Duration) {
	w.mu.Lock()
	p := pendingEvent{Event: e, own: own, due: time.Now().Add(after)}
	switch i := slices.IndexFunc(w.pending, func(p pendingEvent) bool { return p.ID == e.ID }); {
	case i < 0:
		if len(w.pending) == maxRecent {
			w.pending = slices.Delete(w.pending, 0, 1)
		}
		w.pending = append(w.pending, p)
	case own:
		w.pending[i] = p
	}
	w.mu.Unlock()
	w.wake.Send()
}

// forgetDerived drops all pending events except those that only this node knows.
func (w *writer) forgetDerived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(p pendingEvent) bool { return !p.own })
}

func (w *writer) withdrawEvent(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(p pendingEvent) bool { return p.ID == id })
}

// run records events until ctx ends.
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
		timer.Reset(w.recordOnce(ctx))
	}
}

// flushLast records the pending events, or only those of which this node has the exact facts, unless the last write
// failed.
func (w *writer) flushLast(ctx context.Context, all bool) {
	if !w.failing.Load() {
		_, _ = w.flushPending(ctx, func(p pendingEvent) bool { return all || p.own }) // best effort
	}
}

// recordOnce records the events that are due, and returns the time after which to look again.
func (w *writer) recordOnce(ctx context.Context) time.Duration {
	snap := w.cfg.Mirror.Snapshot()
	if snap == nil || !w.cfg.Valid() {
		w.wasRecorder = false
		return time.Second
	}
	records := recorderAddress(snap) == w.cfg.Address
	if err := w.recordDue(ctx, records, time.Now()); err != nil {
		return w.handleFailure(ctx, err)
	}
	w.failing.Store(false)
	w.retry.Reset()
	w.wasRecorder = records
	return w.nextDue(records, time.Now())
}

func (w *writer) recordDue(ctx context.Context, records bool, now time.Time) error {
	if records && !w.wasRecorder {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	wrote, err := w.flushPending(ctx, func(p pendingEvent) bool { return (p.own || records) && !p.due.After(now) })
	if err == nil && w.wroteCommands.Swap(false) {
		if err = w.pruneCommands(ctx, now); err != nil {
			w.wroteCommands.Store(true) // the next attempt prunes
		}
	}
	if err != nil || !records || wrote == 0 && now.Sub(w.pruned) < pruneEvery {
		return err
	}
	w.pruned = now
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	return pruneEvents(ctx, w.cfg.Client, w.cfg.Keys, w.cfg.Keys.Events(), w.cfg.Max, now.Add(-w.cfg.MaxAge))
}

// catchUp drops pending events that are in the log, were in it, or are disproved by it, because the former
// recorder was active until now.
func (w *writer) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
	defer cancel()
	log, err := List(ctx, w.cfg.Client, w.cfg.Keys, event.Query{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = missingEvents(w.pending, log.Events, w.cfg.Max, time.Now().Add(-w.cfg.MaxAge))
	w.pending = slices.DeleteFunc(w.pending, func(p pendingEvent) bool {
		return !p.own && isDisproved(p.Event, log.Events, w.cfg.Address)
	})
	return nil
}

// isDisproved reports whether an event claims a time without a leader in which, according to another node's
// record, a leader was elected. Then only this node, self, was cut off, and it leads on its return.
func isDisproved(e event.Event, log []event.Event, self string) bool {
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

// missingEvents returns the pending events that the log lacks. most and horizon are the limits of the log's size and
// age. Events that it may have had and deleted are not missing: if the log is full, those that are no newer
// than its oldest event.
func missingEvents(all []pendingEvent, events []event.Event, most int, horizon time.Time) []pendingEvent {
	ids, oldest := make(map[string]bool, len(events)), int64(0)
	for _, e := range events {
		ids[e.ID] = true
	}
	if len(events) > 0 && len(events) >= most*9/10 {
		oldest = slices.MinFunc(events, byRevision).Revision
	}
	return slices.DeleteFunc(all, func(p pendingEvent) bool {
		return ids[p.ID] || !p.own && (p.Revision <= oldest || p.Time.Before(horizon))
	})
}

// flushPending records the pending events for which is returns true, and returns their number.
func (w *writer) flushPending(ctx context.Context, is func(pendingEvent) bool) (wrote int, err error) {
	for {
		w.mu.Lock()
		var events []event.Event
		for _, p := range w.pending {
			if len(events) < maxBatch && is(p) {
				p.RecordedBy = w.cfg.Address
				events = append(events, p.Event)
			}
		}
		w.mu.Unlock()
		if len(events) == 0 {
			return wrote, nil
		}
		request, cancel := context.WithTimeout(ctx, w.cfg.RequestTimeout)
		err := recordEvents(request, w.cfg.Client, w.cfg.Keys, events)
		cancel()
		if err != nil {
			return wrote, err
		}
		wrote += len(events)
		if slices.ContainsFunc(events, func(e event.Event) bool { return isCommand(e.Type) }) {
			w.wroteCommands.Store(true)
		}
		w.mu.Lock()
		w.pending = slices.DeleteFunc(w.pending, func(p pendingEvent) bool {
			return slices.ContainsFunc(events, func(e event.Event) bool { return e.ID == p.ID })
		})
		w.mu.Unlock()
	}
}

// nextDue returns the time after which an event is due.
func (w *writer) nextDue(records bool, now time.Time) time.Duration {
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

// handleFailure logs, once, that events cannot be recorded, and returns the time after which to try again.
func (w *writer) handleFailure(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return pruneEvery // the writer is ending
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

// recorderAddress returns the address of the member that records the events observed by all; "" if there are no
// members.
func recorderAddress(s *state.Snapshot) string {
	if m := s.Planner(); m != nil {
		return m.Address
	}
	var oldest *state.Member
	for _, m := range s.RegisteredMembers() {
		if !m.ElectionOnly && (oldest == nil || m.Incarnation < oldest.Incarnation) {
			oldest = m
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Address
}

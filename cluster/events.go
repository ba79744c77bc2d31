package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// EventLog says what this node does for the cluster's event log. The zero value works; give all nodes the same.
type EventLog struct {
	// Off records nothing from this node. It can still read what others record.
	Off bool
	// Max is how many events are kept in etcd. Default 1000, of about 200 bytes each.
	Max int
	// MaxAge is for how long they are kept, at the most. Default 7 days.
	MaxAge time.Duration
}

func (e EventLog) withDefaults() EventLog {
	if e.Max == 0 {
		e.Max = 1000
	}
	if e.MaxAge == 0 {
		e.MaxAge = 7 * 24 * time.Hour
	}
	return e
}

// mostEvents is how many etcd delivers in one answer without trouble.
const mostEvents = 5000

func (e EventLog) validate() error {
	switch {
	case e.Max < 0 || e.Max > mostEvents:
		return fmt.Errorf("%w: Events.Max is %d; give a number up to %d, or leave it 0 for 1000", ErrBadConfig, e.Max,
			mostEvents)
	case e.MaxAge < 0:
		return fmt.Errorf("%w: Events.MaxAge is negative (%v); leave it 0 for 7 days", ErrBadConfig, e.MaxAge)
	}
	return nil
}

// Events is the cluster's event log: what happened to its leader, its nodes and its shards. All methods are safe for
// concurrent use.
type Events struct{ c *Cluster }

// Events is the cluster's event log. It is never nil.
func (c *Cluster) Events() *Events { return &c.events }

// Recent are the newest events that this node itself saw, oldest first, whether they are in the log or not: also
// while etcd is away. It does not block. It is nil before Start has returned and after Stop.
func (e *Events) Recent() []event.Event {
	p := e.c.parts.Load()
	if p == nil {
		return nil
	}
	return p.events.Recent()
}

// EventQuery says which events to list. The zero value: all.
type EventQuery struct {
	// Since leaves out what happened before.
	Since time.Time
	// Limit leaves out all but the newest, so many; 0: none.
	Limit int
}

// List reads the log, oldest first. It blocks for one request to etcd. Errors are etcd's, ctx's, ErrNotStarted and
// ErrStopped.
func (e *Events) List(ctx context.Context, q EventQuery) ([]event.Event, error) {
	p, err := e.c.running()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.c.cfg.RequestTimeout)
	defer cancel()
	events, _, _, err := eventlog.List(ctx, p.client, e.c.keys, eventlog.Query(q))
	if err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	return events, nil
}

// Follow calls each with every event of the log that was recorded after seq (see event.Event.Seq), and then with
// those to come, in the order in which they were recorded; 0 is from the beginning. It blocks until ctx ends, the
// node stops, or each returns an error, which it returns; ErrStopped if the node stops, else nil. While etcd is away
// nothing comes. Each call costs etcd one watch, however many nodes there are.
//
// Events that were recorded in one transaction have the same Seq, and all but the last have More. To lose none, keep as
// the seq to go on after that of an event without More; what comes twice then is known by its ID.
func (e *Events) Follow(ctx context.Context, seq int64, each func(event.Event) error) error {
	p, err := e.c.running()
	if err != nil {
		return err
	}
	ctx, cancel := wait.Within(ctx, p.restCtx)
	defer cancel()
	for ctx.Err() == nil {
		// A watch whose etcd was replaced, or that a proxy has lost, says nothing; the mirror finds that out.
		begun, stop := untilRebuilt(ctx, p.mirror)
		err := eventlog.Follow(begun, p.client, e.c.keys, seq, func(e event.Event) error {
			if !e.More {
				seq = e.Seq
			}
			return each(e)
		})
		stop()
		if err != nil {
			return err
		}
	}
	if p.restCtx.Err() != nil {
		return ErrStopped
	}
	return nil
}

// untilRebuilt is a context that ends with ctx, when the mirror has read the cluster anew, or when stop is called,
// which joins what waits for that.
func untilRebuilt(ctx context.Context, m *watchcache.Mirror) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	rebuilds, done := m.Rebuilds(), make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		_, _ = m.Wait(ctx, func(*state.Snapshot) bool { return m.Rebuilds() != rebuilds })
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

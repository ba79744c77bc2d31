package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// EventLog configures what this node does for the cluster's event log. The zero value works. Use the same values
// on all nodes.
type EventLog struct {
	// Off stops this node from recording events. It can still read those recorded by others.
	Off bool
	// Max limits the number of events kept in etcd. Default 1000, of about 200 bytes each. Half of them may be events
	// that programs recorded, with up to 1 KiB of data each, and a fifth requests of operators.
	Max int
	// MaxAge limits the age of the events kept. Default 7 days.
	MaxAge time.Duration
}

func (e EventLog) withDefaults() EventLog {
	e.Max = cmp.Or(e.Max, 1000)
	e.MaxAge = cmp.Or(e.MaxAge, 7*24*time.Hour)
	return e
}

// maxEvents is the number of events that etcd can deliver in one response without trouble.
const maxEvents = 5000

func (e EventLog) validate() error {
	if e.Max > maxEvents {
		return fmt.Errorf("%w: Events.Max is %d; give a number up to %d, or leave it 0 for 1000", ErrBadConfig, e.Max,
			maxEvents)
	}
	return cmp.Or(checkNotNegative("Events.Max", e.Max), checkNotNegative("Events.MaxAge", e.MaxAge))
}

// Errors of Record.
var (
	// ErrBadEvent is returned by Events.Record for a type or data that cannot be recorded.
	ErrBadEvent = eventlog.ErrBadEvent
	// ErrEventRate is returned by Events.Record when the program records events faster than a node may.
	ErrEventRate = eventlog.ErrEventRate
	// ErrEventLogOff is returned by Events.Record if EventLog.Off is set.
	ErrEventLogOff = eventlog.ErrEventLogOff
)

// Events is the cluster's event log: the history of its leaders, nodes and shards, and events of programs. All methods
// are safe for concurrent use.
type Events struct{ c *Cluster }

// Events returns the cluster's event log. It is never nil.
func (c *Cluster) Events() *Events { return &c.events }

// Recent returns the newest events that this node itself observed, oldest first, whether or not they are in the
// log. It also works while etcd is away. Events of programs are not among them. It does not block. It returns nil
// before Start has returned and after Stop.
func (e *Events) Recent() []event.Event {
	p := e.c.parts.Load()
	if p == nil {
		return nil
	}
	return p.events.RecentEvents()
}

// Record writes an event of the program to the log, with the present time by this node's clock and the node's address.
// The type begins with [event.ProgramPrefix] and has up to 64 bytes; types of Goverse's own are refused. The data is
// nil, or what json.Marshal encodes in up to 1 KiB: a map[string]string, a struct, a json.RawMessage.
//
//	err := c.Events().Record(ctx, "app_import_finished", map[string]string{"file": name})
//
// Record blocks until etcd has the event, or ctx ends; it retries meanwhile. Events of successive calls have growing
// Seq. An event is recorded at most once. When the error is nil, it is in the log; when the error is etcd's or ctx's,
// it may be.
//
// A node records 60 events at once, and then one each second; calls beyond that return ErrEventRate. The log keeps as
// many events of programs as half of EventLog.Max, and up to a tenth more for a while, so they never displace the
// other half: Goverse's own, and the requests of operators. The other errors are ErrBadEvent, ErrEventLogOff,
// ErrNotStarted and ErrStopped.
func (e *Events) Record(ctx context.Context, typ event.Type, data any) error {
	p, err := e.c.runningParts()
	if err != nil {
		return err
	}
	ctx, cancel := wait.MergeContexts(ctx, p.tracked.Context())
	defer cancel()
	err = p.events.Record(ctx, typ, data)
	if err != nil && p.tracked.Context().Err() != nil {
		return ErrStopped
	}
	return err
}

// RecordRequests returns m, with the requests of operators that it stores recorded in the log, with this node's address
// and processor.WithOperator's operator. It is for checkpoints outside etcd; Cluster.Checkpoints and package httpapi
// record by themselves. A request is neither delayed by that nor does it fail: it is recorded afterwards, in the
// background, while the node runs. A node records 60 requests at once, and then one each second.
func (e *Events) RecordRequests(m processor.Manager) processor.Manager {
	if _, records := m.(*Checkpoints); records {
		return m
	}
	return processor.RecordRequests(m, e.reportRequest)
}

func (e *Events) reportRequest(request event.Event) {
	if p, err := e.c.runningParts(); err == nil {
		p.events.ReportCommand(request)
	}
}

// List reads the log, oldest first; more reports whether q.Limit has left out older events. It blocks for one request
// to etcd. Errors are etcd's, ctx's, ErrNotStarted and ErrStopped.
func (e *Events) List(ctx context.Context, q event.Query) (found []event.Event, more bool, err error) {
	p, err := e.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.c.cfg.RequestTimeout)
	defer cancel()
	log, err := eventlog.List(ctx, p.client, e.c.keys, q)
	if err != nil {
		return nil, false, fmt.Errorf("read the event log: %w", err)
	}
	return log.Events, log.More, nil
}

// ForEach calls fn with every event recorded in the log after seq (see event.Event.Seq), then with new events,
// in the order in which they were recorded. A seq of 0 starts from the beginning. ForEach blocks until ctx ends,
// the node stops, or fn returns an error. It returns that error, ErrStopped if the node stops, and nil
// otherwise. While etcd is away no events arrive. Each call costs etcd one watch, whatever the number of nodes.
//
// Events recorded in one transaction have the same Seq, and all but the last have More set. To lose none, resume
// after the Seq of an event without More; recognise events that arrive twice by their ID.
func (e *Events) ForEach(ctx context.Context, seq int64, fn func(event.Event) error) error {
	p, err := e.c.runningParts()
	if err != nil {
		return err
	}
	ctx, cancel := wait.MergeContexts(ctx, p.tracked.Context())
	defer cancel()
	for ctx.Err() == nil {
		// A watch is silent if its etcd was replaced, or if a proxy has lost it. The mirror detects both.
		begun, stop := contextUntilRebuild(ctx, p.Mirror)
		err := eventlog.Follow(begun, p.client, e.c.keys, seq, func(e event.Event) error {
			if !e.More {
				seq = e.Seq
			}
			return fn(e)
		})
		stop()
		if err != nil {
			return err
		}
	}
	if p.tracked.Context().Err() != nil {
		return ErrStopped
	}
	return nil
}

// contextUntilRebuild returns a context that ends with ctx, when the mirror has read the cluster anew, or when stop is
// called. stop also waits for the goroutine that watches for that.
func contextUntilRebuild(ctx context.Context, m *watchcache.Mirror) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	rebuilds, done := m.RebuildCount(), make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		_, _ = m.Wait(ctx, func(*state.Snapshot) bool { return m.RebuildCount() != rebuilds })
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

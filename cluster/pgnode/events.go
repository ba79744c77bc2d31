package pgnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// Events is the cluster's event log in PostgreSQL: the history of its leaders and nodes, and events of programs. All
// methods are safe for concurrent use.
type Events struct{ n *Node }

// Events returns the cluster's event log. It is never nil.
func (n *Node) Events() *Events { return &n.events }

// Recent returns the newest events that this node has read from the log, oldest first. It also works while PostgreSQL
// is away. It does not block.
func (e *Events) Recent() []event.Event {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	return append([]event.Event(nil), e.n.recent.events...)
}

// recordRetry are the pauses before an event is sent again.
var recordRetry = backoff.Policy{First: 50 * time.Millisecond, Last: time.Second}

// Record writes an event of the program to the log, with the present time by this node's clock and the node's id. The
// type begins with [event.ProgramPrefix] and has up to 64 bytes; types of Goverse's own are refused. The data is nil,
// or what json.Marshal encodes in up to 1 KiB.
//
// Record blocks until PostgreSQL has the event, or ctx ends; it retries meanwhile. An event is recorded at most once.
// When the error is nil, it is in the log; when the error is PostgreSQL's or ctx's, it may be. A node records 60
// events at once, and then one each second; calls beyond that return cluster.ErrEventRate. The log keeps 500 events
// of programs. The other errors are cluster.ErrBadEvent and ErrStopped.
func (e *Events) Record(ctx context.Context, typ event.Type, data any) error {
	made, err := e.n.limit.NewEvent(typ, data, e.n.id)
	if err != nil {
		return err
	}
	return e.n.recordUntilDone(ctx, made)
}

// recordUntilDone records an event. It retries until PostgreSQL has it or refuses it, or ctx ends.
func (n *Node) recordUntilDone(ctx context.Context, made event.Event) error {
	for failures := 1; ; failures++ {
		err := n.do(ctx, func(ctx context.Context, db Querier) error {
			_, err := recordEvent(ctx, db, n.keeper.Schema(), made)
			return err
		})
		code := pg.CodeOf(err)
		if err == nil || errors.Is(err, ErrStopped) || ctx.Err() != nil || code != "" && !pg.Transient(code) {
			return err
		}
		wait.For(ctx, recordRetry.Delay(failures, rand.Float64()))
	}
}

// requestTimeout limits the time for which a request of an operator waits to be recorded.
const requestTimeout = time.Minute

// RecordRequests returns m, with the requests of operators that it stores recorded in the log, with this node's id and
// processor.WithOperator's operator. Package httpapi records by itself. A request is neither delayed by that nor does
// it fail: it is recorded afterwards, in the background, while the node runs. A node records 60 requests at once, and
// then one each second. RecordRequests does not block.
func (e *Events) RecordRequests(m processor.Manager) processor.Manager {
	return processor.RecordRequests(m, e.n.reportRequest)
}

// reportRequest logs a request of an operator, and records it in the background.
func (n *Node) reportRequest(request event.Event) {
	if !n.requests.Allow() {
		return
	}
	request.Node, request.RecordedBy = n.id, n.id
	n.tasks.Go(func(ctx context.Context) {
		n.cfg.Logger.Info("an operator changed a processor", "processor", request.Processor, "by", request.By,
			"reason", request.Reason, event.Field, string(request.Type))
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if err := n.recordUntilDone(ctx, request); err != nil && n.ctx.Err() == nil {
			n.cfg.Logger.Debug("could not record the request of an operator", "error", logtext.OneLine(err))
		}
	})
}

// List reads the log, oldest first; more reports whether q.Limit has left out older events. It blocks until
// PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's, ctx's and ErrStopped.
func (e *Events) List(ctx context.Context, q event.Query) (found []event.Event, more bool, err error) {
	return readList(ctx, e.n, "event log", func(ctx context.Context, db Querier) ([]event.Event, bool, error) {
		return listEvents(ctx, db, e.n.keeper.Schema(), q)
	})
}

// ForEach calls fn with every event recorded in the log after seq (see event.Event.Seq), then with new events, in the
// order in which they were recorded. A seq of 0 starts from the beginning. ForEach blocks until ctx ends, the node
// leaves, or fn returns an error. It returns that error, ErrStopped if the node leaves, and nil otherwise. While
// PostgreSQL is away no events arrive. New events are read once for all callers.
func (e *Events) ForEach(ctx context.Context, seq int64, fn func(event.Event) error) error {
	changed, end := e.n.subscribe()
	defer end()
	ended := false
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	read := func(ctx context.Context, seq int64) ([]event.Event, error) {
		found, err := e.n.eventsAfter(ctx, seq)
		if errors.Is(err, ErrStopped) {
			ended = true
			stop()
		}
		return found, err
	}
	err := followEvents(ctx, seq, changed, read, fn)
	if ended {
		return ErrStopped
	}
	return err
}

// eventsAfter returns events after seq, in the order of seq: from memory, if they are there.
func (n *Node) eventsAfter(ctx context.Context, seq int64) ([]event.Event, error) {
	n.mu.Lock()
	found, there := n.recent.after(seq)
	stopped := n.stopped
	n.mu.Unlock()
	switch {
	case stopped:
		return nil, ErrStopped
	case there:
		return found, nil
	}
	found, _, err := readList(ctx, n, "event log", func(ctx context.Context, db Querier) ([]event.Event, bool, error) {
		found, err := nextEvents(ctx, db, n.keeper.Schema(), seq)
		return found, false, err
	})
	return found, err
}

// ring holds the newest events of the log, in the order of Seq, without gaps.
type ring struct {
	began  bool
	events []event.Event
	last   int64 // the Seq up to which the log was read
}

// maxRecent limits the events that a node remembers.
const maxRecent = 256

// add adds events that follow.
func (r *ring) add(events []event.Event, last int64) {
	r.began = true
	r.events = append(r.events, events...)
	if extra := len(r.events) - maxRecent; extra > 0 {
		r.events = append([]event.Event(nil), r.events[extra:]...)
	}
	r.last = last
}

// after returns a copy of the events after seq, at most eventsPage; false if the ring does not have all of them.
func (r *ring) after(seq int64) (found []event.Event, there bool) {
	if !r.began || seq > r.last || seq < r.last && (len(r.events) == 0 || r.events[0].Seq > seq+1) {
		return nil, false
	}
	for _, e := range r.events {
		if e.Seq > seq && len(found) < eventsPage {
			found = append(found, e)
		}
	}
	return found, true
}

// readEvents reads the events that are new to this node.
func (n *Node) readEvents(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	n.eventsAt = time.Now()
	n.mu.Lock()
	after, began := n.recent.last, n.recent.began
	n.mu.Unlock()
	schema := n.keeper.Schema()
	if !began {
		found, err := queryEvents(ctx, conn, in(schema, eventsSQL)+" ORDER BY seq DESC LIMIT $4", event.Query{}, maxRecent)
		if err != nil {
			return err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.newEvents = false
		for i := len(found) - 1; i >= 0; i-- {
			n.recent.add(found[i:i+1], found[i].Seq)
		}
		n.recent.began = true
		return nil
	}
	found, err := nextEvents(ctx, conn, schema, after)
	if err != nil {
		return err
	}
	n.newEvents = len(found) == eventsPage
	if len(found) == 0 {
		return nil
	}
	n.mu.Lock()
	if found[0].Seq <= after { // another database has taken its place
		n.recent = ring{}
	}
	n.recent.add(found, found[len(found)-1].Seq)
	n.mu.Unlock()
	for _, e := range found {
		eventlog.LogLine(n.log, e, n.id, len(n.seen.Load().Nodes))
	}
	n.signalChange()
	return nil
}

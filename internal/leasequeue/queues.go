package leasequeue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Queues are those under one root, as an engine serves them. All methods are safe for concurrent use.
type Queues struct {
	e    *Engine
	keys state.Queues

	// With the engine's lock held:

	closed    bool
	denied    bool          // etcd has denied something, and nothing was done since: see outbox.take
	entries   int           // on the present session
	empty     chan struct{} // closed when there are none, if anybody asked
	followers map[*Follower]struct{}
}

// Queues makes those that lie there. Once for each root of an engine.
func (e *Engine) Queues(keys state.Queues) *Queues {
	q := &Queues{e: e, keys: keys, followers: map[*Follower]struct{}{}}
	e.mu.Lock()
	defer e.unlock()
	e.queues = append(e.queues, q)
	return q
}

// shut reports whether nobody enters any more. The lock is held.
func (q *Queues) shut() bool { return q.closed || q.e.ended }

// Client is the engine's, for what is written under the guard of an entry.
func (q *Queues) Client() *clientv3.Client { return q.e.cfg.Client }

// RequestTimeout bounds each of the engine's requests to etcd.
func (q *Queues) RequestTimeout() time.Duration { return q.e.cfg.RequestTimeout }

// Closed reports whether nobody enters any more: [Queues.Close] was called, or [Engine.Run] has returned.
func (q *Queues) Closed() bool {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	return q.shut()
}

// keysOf are those of the queues, or of the requests about them.
func (q *Queues) keysOf(requests bool) state.Queues {
	if requests {
		return q.keys.Requests()
	}
	return q.keys
}

// Changed is closed at the next change of the session that entries stand on, or of whether it may
// be acted on.
func (q *Queues) Changed() <-chan struct{} {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	return q.e.changed
}

// Want is what somebody wants of a queue.
type Want struct {
	// Name is the queue's.
	Name string
	// Value is what the key says, for others.
	Value string
	// Priority is seen by others, who may let the entry pass: see order.Queue.Target.
	Priority int
	// Shared: to be first among those who do not share is enough.
	Shared bool
	// Request: it is an entry in the queue of the requests about that name.
	Request bool
	// Try: not to wait.
	Try bool
	// Notify, if set, is called when the entry has its token, when it settles, and when one that is first is revoked
	// or its key gone; not when the session ends what stands on it: see [Queues.Changed]. It must not block. It
	// may be called once more when all is over.
	Notify func()
}

// Enter queues on the present session, for which it waits until ctx ends; the entry settles
// later. Errors are ctx's cause and lifecycle.ErrStopped.
func (q *Queues) Enter(ctx context.Context, want Want) (*Entry, error) {
	for {
		changed := q.Changed()
		if x := q.TryEnter(want); x != nil {
			return x, nil
		}
		if q.Closed() {
			return nil, lifecycle.ErrStopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TryEnter is Enter without waiting for a session: it returns nil where there is none.
func (q *Queues) TryEnter(want Want) *Entry {
	x := &Entry{Want: want, q: q}
	q.e.mu.Lock()
	defer q.e.unlock()
	if q.shut() || !q.e.ready() {
		return nil
	}
	q.e.run.enter(x)
	return x
}

// Take queues, on one session after the other, until the entry is first, or ctx ends. Errors
// are ctx's cause, lifecycle.ErrStopped, ErrTaken, and what etcd refused.
func (q *Queues) Take(ctx context.Context, want Want) (*Entry, error) {
	for ctx.Err() == nil {
		x, err := q.Enter(ctx, want)
		if err != nil {
			return nil, err
		}
		select {
		case <-x.Settled():
		case <-x.Lost():
			continue // the session, and with it the entry
		case <-ctx.Done():
			x.Abandon()
			return nil, context.Cause(ctx)
		}
		switch err := x.Err(); {
		case err == nil:
			return x, nil
		case errors.Is(err, ErrTaken):
			_ = x.Gone(ctx) // until then it is in the way of others who try
			return nil, err
		case !errors.Is(err, ErrAgain):
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// Close lets nobody enter any more, ends the contexts of all who are first, with lifecycle.ErrStopped,
// and has those who wait leave. It blocks until all have left, or ctx ends; the error is then
// ctx's cause.
func (q *Queues) Close(ctx context.Context) error {
	r, empty := q.expel()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
	case <-r.ctx.Done(): // the session is lost, and all entries with it
	case <-ctx.Done():
		return fmt.Errorf("not released: %s: %w", q.names(), context.Cause(ctx))
	}
	return nil
}

// expel has all entries leave. empty is closed when they have; nil if there are none.
func (q *Queues) expel() (r *run, empty <-chan struct{}) {
	q.e.mu.Lock()
	defer q.e.unlock()
	q.closed = true
	q.e.change()
	r = q.e.run
	if r == nil || q.entries == 0 {
		return nil, nil
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	for _, x := range r.entries {
		if x.q == q {
			x.turn(x.now().Expel())
		}
	}
	return r, q.empty
}

// left: an entry of these has no key any more. The lock is held.
func (q *Queues) left() {
	if q.entries--; q.entries == 0 && q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

// names are those of the entries, a few of them, for people.
func (q *Queues) names() string {
	const most = 3
	var names []string
	q.e.mu.Lock()
	if r := q.e.run; r != nil {
		for _, x := range r.entries {
			if x.q == q {
				names = append(names, strconv.Quote(x.Name))
			}
		}
	}
	q.e.mu.Unlock()
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

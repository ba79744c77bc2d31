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

// Queues represents the queues under one root, served by one engine. All methods are safe for concurrent use.
type Queues struct {
	e    *Engine
	keys state.Queues

	// Guarded by Engine.mu:

	closed    bool
	denied    bool  // etcd has denied an operation, and none has succeeded since: see queueOp.deniedQueues
	entries   int   // entries on the present session
	empty     latch // closed when no entry is left
	followers map[*Follower]struct{}
}

// Queues returns the queues under the root of keys. Call it once for each root of an engine.
func (e *Engine) Queues(keys state.Queues) *Queues {
	q := &Queues{e: e, keys: keys, followers: map[*Follower]struct{}{}}
	e.mu.Lock()
	defer e.unlock()
	e.queues = append(e.queues, q)
	return q
}

// closedOrEnded reports whether no entry may be added any more. The caller holds Engine.mu.
func (q *Queues) closedOrEnded() bool { return q.closed || q.e.ended }

// Client returns the engine's etcd client, for writes under the guard of an entry.
func (q *Queues) Client() *clientv3.Client { return q.e.cfg.Client }

// RequestTimeout returns the limit of each of the engine's requests to etcd.
func (q *Queues) RequestTimeout() time.Duration { return q.e.cfg.RequestTimeout }

// Closed reports whether no entry may be added any more, because [Queues.Close] was called or [Engine.Run]
// returned.
func (q *Queues) Closed() bool {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	return q.closedOrEnded()
}

// keysOf returns the key names of the queues, or of the requests about them.
func (q *Queues) keysOf(requests bool) state.Queues {
	if requests {
		return q.keys.Requests()
	}
	return q.keys
}

// Changed returns a channel that is closed at the next change of the engine's session: another session, a
// change of whether the session may be acted on, or the end of the queues or the engine.
func (q *Queues) Changed() <-chan struct{} {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	return q.e.changed
}

// EntrySpec describes an entry that a caller wants in a queue.
type EntrySpec struct {
	// Name names the queue.
	Name string
	// Value is the value of the key. Other processes can read it.
	Value string
	// Priority is part of the key. Other processes may let a higher priority pass: see order.Queue.Target.
	Priority int
	// Shared entries are granted together, as soon as no exclusive entry is ahead of them.
	Shared bool
	// Request puts the entry in the queue of requests about that name instead.
	Request bool
	// Try makes the entry fail with ErrNotFirst instead of waiting.
	Try bool
	// Notify, if set, is called when the entry has its token, when it is decided, and when a granted entry is
	// revoked or its key is gone. It is not called when the session ends: see [Queues.Changed]. It must not
	// block. It may be called once more after the entry has ended.
	Notify func()
}

// Enter adds an entry on the present session, and blocks until there is a session or ctx ends. It does not wait
// until the entry is decided. Errors are ctx's cause and lifecycle.ErrStopped.
func (q *Queues) Enter(ctx context.Context, want EntrySpec) (*Entry, error) {
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

// TryEnter is like Enter, but returns nil if there is no session.
func (q *Queues) TryEnter(want EntrySpec) *Entry {
	x := &Entry{EntrySpec: want, q: q}
	q.e.mu.Lock()
	defer q.e.unlock()
	if q.closedOrEnded() || !q.e.hasSession() {
		return nil
	}
	q.e.run.addEntry(x)
	return x
}

// Acquire adds an entry and blocks until it is granted or ctx ends. If the session is lost, it starts again on the
// next one. Errors are ctx's cause, lifecycle.ErrStopped, ErrNotFirst, and etcd's if it refuses the entry.
func (q *Queues) Acquire(ctx context.Context, want EntrySpec) (*Grant, error) {
	for ctx.Err() == nil {
		x, err := q.Enter(ctx, want)
		if err != nil {
			return nil, err
		}
		select {
		case <-x.Decided():
		case <-x.SessionContext().Done():
			continue // the entry is lost with the session
		case <-ctx.Done():
			x.Release()
			return nil, context.Cause(ctx)
		}
		switch g, err := x.Outcome(); {
		case err == nil:
			return g, nil
		case errors.Is(err, ErrNotFirst):
			_ = x.AwaitDeletion(ctx) // until the key is gone it blocks other entries with Try
			return nil, err
		case !errors.Is(err, ErrEntryLost):
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// Close stops accepting entries, ends the contexts of granted entries with lifecycle.ErrStopped, and removes
// the waiting ones. It blocks until all entries have left. If ctx ends first, it returns an error that wraps
// ctx's cause.
func (q *Queues) Close(ctx context.Context) error {
	r, empty := q.releaseEntries()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
	case <-r.ctx.Done(): // the session is lost, and all entries with it
	case <-ctx.Done():
		return fmt.Errorf("not released: %s: %w", q.entryNames(), context.Cause(ctx))
	}
	return nil
}

// releaseEntries makes all entries leave. It returns a channel that is closed when they have left, or nil if there are
// none.
func (q *Queues) releaseEntries() (r *sessionRun, empty <-chan struct{}) {
	q.e.mu.Lock()
	defer q.e.unlock()
	q.closed = true
	q.e.signalChange()
	r = q.e.run
	if r == nil || q.entries == 0 {
		return nil, nil
	}
	empty = q.empty.channel(false)
	for _, x := range r.entries {
		if x.q == q {
			x.applyChange(x.state.Load().RevokeOrRelease())
		}
	}
	return r, empty
}

// entryRemoved records that an entry's key is gone. The caller holds Engine.mu.
func (q *Queues) entryRemoved() {
	if q.entries--; q.entries == 0 {
		q.empty.close()
	}
}

// entryNames returns the names of a few entries, for an error text.
func (q *Queues) entryNames() string {
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

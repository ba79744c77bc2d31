package elections

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
)

// Resign ends this node's term. It waits for the term's functions, up to WorkTimeout, and queues the node again
// at the tail. It blocks until the entry is released or ctx ends; the entry is then released as soon as etcd
// answers. The error is ErrNotLeader if this node does not lead, ctx's cause, or etcd's if it refuses the
// release. In the last case no other node leads until the session ends or etcd allows the release, which is
// retried every third of a TTL.
func (e *Election) Resign(ctx context.Context) error {
	place := e.resign()
	if place == nil {
		return fmt.Errorf("election %q: %w", e.name, election.ErrNotLeader)
	}
	return e.given(ctx, place)
}

// resign ends the present term and returns its place, or nil if there is none.
func (e *Election) resign() *placing {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	t := e.term.Load()
	if t == nil || !t.place.Stands() {
		return nil
	}
	e.candidate = e.candidate.Resign()
	e.all.mark(e)
	return e.place
}

// Withdraw ends this node's candidacy. A term ends as by Resign. The node continues to follow the election.
// Withdraw blocks as Resign does.
func (e *Election) Withdraw(ctx context.Context) error { return e.leave(ctx, election.ErrWithdrawn) }

// Close closes the election for all its users in this process. A term ends as by Withdraw. Then the node stops
// following the election: Leader is empty, the channels of Watch close, and blocked calls fail with
// election.ErrClosed, except Lead, which fails with ErrWithdrawn or ErrObserver as after Withdraw. Call Stand
// or Observe to use the election again. If that happens while Close waits, the election stays open as that call
// requested. Close blocks as Resign does. If it fails, nothing is closed, but this node has withdrawn.
func (e *Election) Close(ctx context.Context) error {
	e.all.mu.Lock()
	e.wanted = false
	e.all.mu.Unlock()
	if err := e.Withdraw(ctx); err != nil {
		return err
	}
	if e.all.forget(e) {
		e.unfollow()
	}
	return nil
}

// Unfollow undoes one Observe. After the last one the election is closed, unless this node is a candidate. It
// does not block.
func (e *Election) Unfollow() {
	e.all.mu.Lock()
	e.observers--
	if c := e.candidate; !c.Stands || c.Gone != nil { // otherwise the candidacy keeps it open
		e.wanted = false
	}
	e.all.mu.Unlock()
	if e.all.forget(e) {
		e.unfollow()
	}
}

func (e *Election) unfollow() {
	e.all.mu.Lock()
	e.released = true
	end := e.end
	e.notify()
	e.all.mu.Unlock()
	if end != nil {
		end(e.closed())
	}
	e.follower.Stop()
}

func (e *Election) closed() error { return fmt.Errorf("election %q: %w", e.name, election.ErrClosed) }

// lasts returns a context that ends when the election is closed.
func (e *Election) lasts() context.Context {
	var own struct{ end context.CancelCauseFunc }
	var life context.Context
	life, own.end = context.WithCancelCause(e.all.life)
	e.all.mu.Lock()
	made, released := e.life, e.released
	if made == nil {
		e.life, e.end = life, own.end
	}
	e.all.mu.Unlock()
	switch {
	case made != nil:
		own.end(nil)
		return made
	case released:
		own.end(e.closed())
	}
	return life
}

func (e *Election) leave(ctx context.Context, why error) error {
	return e.given(ctx, e.withdraw(why))
}

// given waits until the place is released. nil means that there is none.
func (e *Election) given(ctx context.Context, place *placing) error {
	if place == nil {
		return nil
	}
	sub := e.Subscribe()
	defer sub.Close()
	for {
		x, still := e.has(place)
		switch {
		case !still && x == nil: // there was no session
			return nil
		case !still:
			return x.Gone(ctx)
		}
		var lost <-chan struct{}
		if x != nil {
			lost = x.Lost()
		}
		select {
		case <-sub.C:
		case <-lost:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// has returns the entry of the place, and reports whether this node still has the place.
func (e *Election) has(place *placing) (x *leasequeue.Entry, still bool) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	return place.entry, e.place == place
}

package elections

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
)

// Resign gives leadership up: the term ends, its functions are waited for, up to WorkTimeout,
// and this node queues again at the tail. It blocks until the place is given up, or ctx ends;
// it is then given up as soon as etcd answers. The error is ErrNotLeader if this node does not
// lead, ctx's cause, or what etcd refused: nobody else leads then until etcd allows the place to be
// given up, which it is asked for again every third of a TTL, or the session ends.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	t := e.term.Load()
	if t == nil || !t.place.Stands() {
		e.mu.Unlock()
		return fmt.Errorf("election %q: %w", e.name, election.ErrNotLeader)
	}
	e.giveUp = ErrResigned
	e.mu.Unlock()
	e.touch()
	return e.given(ctx, t.place)
}

// Withdraw leaves the election: a term ends as by Resign, and this node stands in it no more;
// it goes on following it. It blocks as Resign does.
func (e *Election) Withdraw(ctx context.Context) error { return e.leave(ctx, election.ErrWithdrawn) }

// Close lets the election go, for everyone in this process who has it: a term ends as by
// Withdraw, and this node does not follow it any more: Leader says nobody, Watch's channels
// close, and what blocks fails with election.ErrClosed, but Lead with ErrWithdrawn or ErrObserver, as
// after Withdraw. Who wants it again asks for it by its name. If
// anybody does that while Close waits, the election stays as that one wants it. It blocks as
// Resign does; when that fails, nothing is closed, and this node has withdrawn.
func (e *Election) Close(ctx context.Context) error {
	e.mu.Lock()
	e.wanted = false
	e.mu.Unlock()
	if err := e.Withdraw(ctx); err != nil {
		return err
	}
	if e.all.forget(e) {
		e.unfollow()
	}
	return nil
}

// Unfollow takes one Observe back. After the last one the election is closed, unless this node
// stands in it. It does not block.
func (e *Election) Unfollow() {
	e.mu.Lock()
	e.observers--
	if e.observer || e.gone != nil { // or it is wanted by who stands
		e.wanted = false
	}
	e.mu.Unlock()
	if e.all.forget(e) {
		e.unfollow()
	}
}

func (e *Election) unfollow() {
	e.mu.Lock()
	e.released = true
	if e.end != nil {
		e.end(e.closed())
	}
	e.notify()
	e.mu.Unlock()
	e.follower.Stop()
}

func (e *Election) closed() error { return fmt.Errorf("election %q: %w", e.name, election.ErrClosed) }

// lasts is a context that ends when the election is closed.
func (e *Election) lasts() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		e.life, e.end = context.WithCancelCause(e.all.life)
		if e.released {
			e.end(e.closed())
		}
	}
	return e.life
}

func (e *Election) leave(ctx context.Context, why error) error {
	e.mu.Lock()
	if e.gone == nil {
		e.gone, e.giveUp = fmt.Errorf("election %q: %w", e.name, why), why
	}
	place := e.place
	e.mu.Unlock()
	e.touch()
	if place == nil {
		return nil
	}
	return e.given(ctx, place)
}

// given waits until a place is no more.
func (e *Election) given(ctx context.Context, place *leasequeue.Entry) error {
	sub := e.Subscribe()
	defer sub.Close()
	for {
		e.mu.Lock()
		still := e.place == place
		e.mu.Unlock()
		if !still {
			break
		}
		select {
		case <-sub.C:
		case <-place.Lost():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return place.Gone(ctx)
}

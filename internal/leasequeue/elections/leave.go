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
	place := e.resign()
	if place == nil {
		return fmt.Errorf("election %q: %w", e.name, election.ErrNotLeader)
	}
	return e.given(ctx, place)
}

// resign has the present term end, if there is one, and returns its place.
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

// Unfollow takes one Observe back. After the last one the election is closed, unless this node
// stands in it. It does not block.
func (e *Election) Unfollow() {
	e.all.mu.Lock()
	e.observers--
	if c := e.candidate; !c.Stands || c.Gone != nil { // or it is wanted by who stands
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

// lasts is a context that ends when the election is closed.
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

// given waits until a place is no more; nil is none.
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

// has reports whether this node has that place still, and which it is.
func (e *Election) has(place *placing) (x *leasequeue.Entry, still bool) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	return place.entry, e.place == place
}

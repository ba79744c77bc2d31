package elections

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
	"github.com/goverse/goverse/internal/wait"
)

// Lead waits until this node leads and runs fn. fn's context ends with the term, or with ctx;
// fn must return soon after, for a leader that gives way waits for it (up to WorkTimeout)
// before the next one can lead. Lead returns what fn returned; if that is the context's error
// because the term ended, an error that matches ErrTermOver. It does not give leadership up
// when fn returns (Resign does), and runs fn once: call it in a loop to serve every term. Where
// fn did not run, and no later call would, the error is ErrObserver, ErrWithdrawn or lifecycle.ErrStopped;
// else ctx's cause.
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	t, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer e.left(t)
	work, stop := t.place.Within(ctx)
	defer stop()
	err = fn(work, t)
	cause := t.place.Over()
	if ctx.Err() != nil || cause == nil || err == nil {
		return err
	}
	// The context's cause may be the reason alone, and what is known now say more.
	said := errors.Is(err, election.ErrTermOver)
	ofTheEnd := errors.Is(err, context.Canceled) || errors.Is(err, cause) || errors.Is(cause, err)
	if said || !ofTheEnd {
		return err
	}
	return t.over(cause)
}

// AsLeader runs fn at once if this node leads, as work of its term that is not broken off: a leader
// that gives way waits for it, up to WorkTimeout, and until it has returned the term's Txn commits,
// though IsLeader is false. fn's context ends with ctx, with the session, which includes its
// suspension and deadline, when the leading key is lost, and when WorkTimeout has passed since the
// leader gave way. AsLeader returns what fn returned; if that is the context's error because the
// term ended, an error that matches ErrTermOver. If this node does not lead, the error is
// ErrNotLeader, and fn did not run.
func (e *Election) AsLeader(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	t, _ := e.join()
	if t == nil {
		return fmt.Errorf("election %q: %w", e.name, election.ErrNotLeader)
	}
	defer e.left(t)
	work, stop := wait.Within(ctx, t.tail)
	defer stop()
	err := fn(work, t)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && t.tail.Err() != nil {
		return t.over(context.Cause(t.tail))
	}
	return err
}

// cutOff ends what goes on in a term that is over: nobody waits for it any longer.
func (e *Election) cutOff() {
	e.all.mu.Lock()
	t := e.over
	e.all.mu.Unlock()
	if t != nil {
		t.cut(t.place.Over())
	}
}

// join counts the caller as work of the term that this node leads by, if there is one.
func (e *Election) join() (*Term, candidate.Candidate) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	t := e.Term()
	if t != nil {
		t.work++
	}
	return t, e.candidate
}

// enter waits for a term of this node and counts the caller as its work.
func (e *Election) enter(ctx context.Context) (*Term, error) {
	sub := e.Subscribe()
	defer sub.Close()
	for {
		t, c := e.join()
		switch {
		case t != nil:
			return t, nil
		case !c.Stands:
			return nil, ErrObserver
		case c.Gone != nil:
			return nil, fmt.Errorf("election %q: %w", e.name, c.Gone)
		}
		select {
		case <-sub.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (e *Election) left(t *Term) {
	e.all.mu.Lock()
	t.work--
	idle := t.work == 0
	over := idle && e.term.Load() != t
	if idle {
		e.all.mark(e)
	}
	e.all.mu.Unlock()
	if why := t.place.Over(); over && why != nil { // or it is about to be cut by the one that looks
		t.cut(why)
	}
}

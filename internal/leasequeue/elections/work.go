package elections

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
	"github.com/goverse/goverse/internal/wait"
)

// Lead blocks until this node leads, runs fn, and returns fn's error. fn's context ends with the term or with
// ctx. fn must return soon after, because a leader that gives way waits for it, up to WorkTimeout, before the
// next one can lead. If fn returns its context's error because the term ended, Lead returns an error that
// matches ErrTermOver. The node keeps the leadership when fn returns (call Resign to end it). fn runs once:
// call Lead in a loop to serve every term. If fn cannot run, now or later, Lead returns ErrObserver,
// ErrWithdrawn or lifecycle.ErrStopped; if ctx ends first, its cause.
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
	// The context's cause may be only the reason. More may be known now.
	said := errors.Is(err, election.ErrTermOver)
	ofTheEnd := errors.Is(err, context.Canceled) || errors.Is(err, cause) || errors.Is(cause, err)
	if said || !ofTheEnd {
		return err
	}
	return t.over(cause)
}

// AsLeader runs fn at once if this node leads. If the leader gives way meanwhile, it waits for fn, up to
// WorkTimeout, instead of cutting it off. Until fn has returned the term's Txn still commits, though IsLeader
// is false. fn's context ends with ctx, with the session (also by its suspension or deadline), when the leading
// key is lost, and when WorkTimeout has passed since the leader gave way. AsLeader returns fn's error. If that
// is the context's error because the term ended, it returns an error that matches ErrTermOver. If this node
// does not lead, it returns ErrNotLeader and does not run fn.
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

// cutOff ends the contexts of work in a term that is over and that no caller waits for any longer.
func (e *Election) cutOff() {
	e.all.mu.Lock()
	t := e.over
	e.all.mu.Unlock()
	if t != nil {
		t.cut(t.place.Over())
	}
}

// join counts the caller as work of the present term. The term is nil if this node does not lead.
func (e *Election) join() (*Term, candidate.Candidate) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	t := e.Term()
	if t != nil {
		t.work++
	}
	return t, e.candidate
}

// enter blocks until this node leads, and counts the caller as work of the term.
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
	if why := t.place.Over(); over && why != nil { // otherwise look is about to cut it
		t.cut(why)
	}
}

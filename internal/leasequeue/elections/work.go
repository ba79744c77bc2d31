package elections

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
)

// Lead blocks until this node leads, runs fn, and returns fn's error. fn's context ends with the term or with
// ctx. fn must return soon after, because a leader that gives way waits for it, up to WorkTimeout, before the
// next one can lead. If fn returns its context's error because the term ended, Lead returns an error that
// matches ErrTermOver. The node keeps the leadership when fn returns (call Resign to end it). fn runs once:
// call Lead in a loop to serve every term. If fn cannot run, now or later, Lead returns ErrObserver,
// ErrWithdrawn or lifecycle.ErrStopped; if ctx ends first, its cause.
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	t, err := e.awaitTerm(ctx)
	if err != nil {
		return err
	}
	return t.scope.RunUntilEnd(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// AsLeader runs fn at once if this node leads. If the leader gives way meanwhile, it waits for fn, up to
// WorkTimeout, instead of cutting it off. Until fn has returned the term's Txn still commits, though IsLeader
// is false. fn's context ends with ctx, with the session (also by its suspension or deadline), when the leading
// key is lost, and when WorkTimeout has passed since the leader gave way. AsLeader returns fn's error. If that
// is the context's error because the term ended, it returns an error that matches ErrTermOver. If this node
// does not lead, it returns ErrNotLeader and does not run fn.
func (e *Election) AsLeader(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	t, _ := e.joinTerm()
	if t == nil {
		return fmt.Errorf("election %q: %w", e.name, leaderelection.ErrNotLeader)
	}
	return t.scope.RunIntoTail(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// abandonWork ends the contexts of functions that still run and stops waiting for them.
func (e *Election) abandonWork() {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	if e.endedTerm != nil {
		e.endedTerm.scope.Abandon()
	}
}

// joinTerm counts the caller as work of the present term. The term is nil if this node does not lead.
func (e *Election) joinTerm() (*Term, candidate.Candidate) {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	t := e.Term()
	if t != nil && !t.scope.Enter() {
		t = nil
	}
	return t, e.candidate
}

// awaitTerm blocks until this node leads, and counts the caller as work of the term.
func (e *Election) awaitTerm(ctx context.Context) (*Term, error) {
	sub := e.Subscribe()
	defer sub.Close()
	for {
		t, c := e.joinTerm()
		switch {
		case t != nil:
			return t, nil
		case !c.WantsToLead:
			return nil, ErrObserver
		case c.WithdrawReason != nil:
			return nil, fmt.Errorf("election %q: %w", e.name, c.WithdrawReason)
		}
		select {
		case <-sub.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

package elections

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
)

// Lead is LeaderElection.Lead of package leaderelection for this election. If fn cannot run, now or later, it returns
// ErrObserver, ErrWithdrawn or lifecycle.ErrStopped; if ctx ends first, its cause.
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	t, err := e.awaitTerm(ctx)
	if err != nil {
		return err
	}
	return t.scope.RunUntilEnd(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// AsLeader is LeaderElection.AsLeader of package leaderelection for this election.
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
	if e.place != nil && e.place.term != nil {
		e.place.term.scope.Abandon()
	}
}

// overdueError returns an error if functions of this node's terms go on, although WorkTimeout has passed.
func (e *Election) overdueError() error {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	if err := e.overdue.Err(); err != nil {
		return fmt.Errorf("election %q: %w", e.name, err)
	}
	return nil
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

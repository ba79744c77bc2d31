package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/wait"
)

// deniedRetry is the pause before this process stands again after PostgreSQL has refused it.
const deniedRetry = time.Second

// errResigned is the reason for the end of a term that was resigned.
var errResigned = errors.New("resigned")

// Candidate is this process's candidacy in one election. All methods are safe for concurrent use.
type Candidate struct {
	*Election
	current atomic.Pointer[term]
	done    chan struct{} // closed when the candidacy is over and its claim is released

	standing context.Context // ends when the candidacy is to end; its cause is the reason
	withdraw context.CancelCauseFunc

	// Guarded by mu, the lock of the scopes of its terms:

	mu      sync.Mutex
	err     error // the reason why it cannot stand
	overdue termscope.Overdue
}

func newCandidate(es *Elections, name string) *Candidate {
	c := &Candidate{done: make(chan struct{})}
	c.Election = newElection(es, name, c.ownTerm)
	c.standing, c.withdraw = context.WithCancelCause(es.keeper.Context())
	return c
}

// ownTerm returns the term by which this process leads at this instant, or nil.
func (c *Candidate) ownTerm() *term {
	if t := c.current.Load(); t != nil && t.claim.Valid() {
		return t
	}
	return nil
}

// run stands in the election, and leads term after term, until the candidacy is over.
func (c *Candidate) run(context.Context) {
	defer close(c.done)
	for c.standing.Err() == nil {
		claim, err := c.es.keeper.Acquire(c.standing, claims.Spec{Name: prefix + c.name})
		switch {
		case err == nil:
			c.setErr(nil)
			c.lead(claim)
		case errors.Is(err, lifecycle.ErrStopped):
			c.withdraw(lifecycle.ErrStopped)
		case c.standing.Err() == nil:
			c.setErr(err)
			wait.For(c.standing, deniedRetry)
		}
	}
	c.es.dropCandidate(c)
	c.notify()
}

// lead leads one term.
func (c *Candidate) lead(claim *claims.Claim) {
	t := &term{c: c, claim: claim, acquired: time.Now(), idle: make(chan struct{})}
	t.resigned, t.resign = context.WithCancelCause(c.standing)
	defer t.resign(nil)
	t.scope = termscope.New(termscope.Owner{Lock: &c.mu, WorkTimeout: c.es.timeout, Overdue: &c.overdue,
		OnIdle: func() { close(t.idle) },
		OnOverdue: func(n int) {
			c.es.log.Warn("functions in a term that is over go on; not waiting for them any longer", "election", c.name,
				"token", t.Token(), "functions", n)
		},
		OverError: t.overError,
	}, termscope.EndOf(claim.Context()), termscope.EndOf(claim.Context()))
	c.current.Store(t)
	c.es.log.Info("leads the election", "election", c.name, "token", t.Token())
	c.notify()
	select {
	case <-t.resigned.Done():
	case <-claim.Context().Done():
	}
	c.current.Store(nil) // the flag goes down first
	why := claim.EndCause()
	if why == nil {
		why = context.Cause(t.resigned)
	}
	c.mu.Lock()
	t.scope.End(t.overError(why))
	c.mu.Unlock()
	c.es.log.Info("no longer leads the election", "election", c.name, "token", t.Token(), "reason", why)
	c.notify()
	select {
	case <-t.idle:
	case <-claim.Context().Done(): // another candidate may lead: there is nothing to keep for the functions
	}
	_, _ = claim.Release(context.Background()) // ends with the session at the latest
}

func (c *Candidate) setErr(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.notify()
}

// IsLeader reports whether this process leads at this instant. It does not use the network.
func (c *Candidate) IsLeader() bool { return c.ownTerm() != nil }

// Term returns the term by which this process leads at this instant, or false.
func (c *Candidate) Term() (leaderelection.Term, bool) {
	if t := c.ownTerm(); t != nil {
		return t, true
	}
	return nil, false
}

// Err returns the error with which PostgreSQL last refused the candidacy, nil if it has led since.
func (c *Candidate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// WatchErr delivers the current value of Err, then every change, as Watch does for the leader.
func (c *Candidate) WatchErr(ctx context.Context) (<-chan error, error) {
	return watchValue(ctx, c.Election, c.Err, func(a, b error) bool {
		return a == b || a != nil && b != nil && a.Error() == b.Error()
	})
}

// enterTerm counts the caller as work of the present term, which it returns, or nil.
func (c *Candidate) enterTerm() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.ownTerm(); t != nil && t.scope.Enter() {
		return t
	}
	return nil
}

// Lead waits until this process leads, then runs fn once. fn's context ends with the term, or with ctx. fn must return
// soon after that, because a leader that gives way waits for it, up to the WorkTimeout. Lead returns fn's error; if
// that is the context's error because the term ended, it returns an error that matches leaderelection.ErrTermOver.
// Leadership does not end when fn returns. If fn did not run, the error is leaderelection.ErrWithdrawn,
// leaderelection.ErrStopped, or ctx's cause.
func (c *Candidate) Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	ctxOrEnd, stop := wait.MergeContexts(ctx, c.standing)
	defer stop()
	changed, end := c.subscribe()
	defer end()
	var t *term
	err := wait.Until(ctxOrEnd, changed, func() bool {
		t = c.enterTerm()
		return t != nil
	})
	if err != nil {
		return err
	}
	return t.scope.RunUntilEnd(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// LeadEach runs fn once in every term of this process, until ctx ends; see Candidate.LeadEach of package cluster.
func (c *Candidate) LeadEach(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	return termscope.LeadEach(ctx, c.Lead, fn)
}

// AsLeader runs fn at once if this process leads. A leader that gives way waits for fn, up to the WorkTimeout, and fn's
// context goes on until then. If this process does not lead, the error matches leaderelection.ErrNotLeader.
func (c *Candidate) AsLeader(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	t := c.enterTerm()
	if t == nil {
		return fmt.Errorf("election %q: %w", c.name, leaderelection.ErrNotLeader)
	}
	return t.scope.RunIntoTail(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// Resign gives up leadership: it ends the term, waits for its functions up to the WorkTimeout, and queues this process
// again at the tail. It blocks until the claim is released, or ctx ends; it is then released as soon as PostgreSQL
// answers. Errors are leaderelection.ErrNotLeader and ctx's cause.
func (c *Candidate) Resign(ctx context.Context) error {
	t := c.ownTerm()
	if t == nil {
		return fmt.Errorf("election %q: %w", c.name, leaderelection.ErrNotLeader)
	}
	t.resign(errResigned)
	return t.claim.AwaitReleased(ctx)
}

// Withdraw ends the candidacy: a term ends as with Resign, and this process is no candidate until Stand is called
// again, which returns another Candidate. Views of the election go on. Withdraw blocks like Resign.
func (c *Candidate) Withdraw(ctx context.Context) error {
	c.withdraw(fmt.Errorf("election %q: %w", c.name, leaderelection.ErrWithdrawn))
	select {
	case <-c.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.overdue.Err(); err != nil {
		return fmt.Errorf("election %q: %w", c.name, err)
	}
	return nil
}

// Close withdraws, and ends the view. It blocks like Resign; if it fails, this process has withdrawn and nothing is
// closed.
func (c *Candidate) Close(ctx context.Context) error {
	if err := c.Withdraw(ctx); err != nil {
		return err
	}
	return c.Election.Close()
}

// reasonOf returns the reason for the end of a term.
func reasonOf(why error) leaderelection.Reason {
	switch {
	case errors.Is(why, errResigned):
		return leaderelection.ReasonResigned
	case errors.Is(why, leaderelection.ErrWithdrawn):
		return leaderelection.ReasonWithdrawn
	case errors.Is(why, lifecycle.ErrStopped):
		return leaderelection.ReasonStopped
	case errors.Is(why, leaderelection.ErrKeyLost):
		return leaderelection.ReasonKeyLost
	case errors.Is(why, session.ErrLost):
		return leaderelection.ReasonSessionLost
	}
	return ""
}

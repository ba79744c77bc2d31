package elector

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/internal/lifecycle"
)

// ErrEnded is returned by [Elector.Lead] when Run has returned and was not called again. It matches
// processor.ErrNoLock, so a processor with this leader lock ends, too.
var ErrEnded = fmt.Errorf("%w: Run of the elector has returned; call it for as long as Lead is used",
	lifecycle.ErrNoLock)

// Lead waits until this candidate leads and runs fn with the term's token. Run must run meanwhile in another
// goroutine, or begin later. So an Elector is a processor.LeaderLock, also for several processors at a time.
//
// fn's context holds ctx's values and the token ([TokenFrom]). It ends with ctx and with the term; in the latter
// case its cause is ErrExpired, ErrTaken, or the cause of Run's context. fn must then return soon: as for
// OnStartedLeading, this candidate neither releases the lease nor leads again before that. The term continues when
// fn returns, because OnStartedLeading and other calls of Lead may share it. A later call of Lead runs its
// function in the same term, or waits for the next one.
//
// Lead returns fn's error. If fn did not run, it returns the cause of ctx, or ErrEnded.
func (e *Elector) Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	t, err := e.enterTerm(ctx)
	if err != nil {
		return err
	}
	return t.scope.RunUntilEnd(context.WithValue(ctx, tokenKey{}, t.token), func(ctx context.Context) error {
		return fn(ctx, t.token)
	})
}

// enterTerm waits until this candidate leads, and counts a function of that term.
func (e *Elector) enterTerm(ctx context.Context) (*term, error) {
	for ctx.Err() == nil {
		changed, ended := e.terms.observe()
		if t := e.currentTerm(); t != nil && t.enter() {
			return t, nil
		}
		if ended {
			return nil, ErrEnded
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

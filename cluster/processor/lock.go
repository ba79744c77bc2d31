package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/internal/leadcaller"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/wait"
)

// LeaderLock decides when this process may handle events. See Election, Lock, Shard and LockFunc. An
// *elector.Elector is one, too.
type LeaderLock interface {
	// Lead waits until this process leads, runs fn, and releases the lead when fn has returned, unless others
	// share it. fn's context ends with the lead or with ctx. token is larger than the tokens of all earlier
	// leaders. A lock without tokens passes 0: the checkpoint then takes its last token plus one, so that an
	// earlier leader is fenced when the next one claims the checkpoint. Lead returns fn's error, or the reason why
	// fn did not run. That error matches ErrNoLock if fn can never run.
	Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error
}

// ErrNoLock is returned if a leader lock can never be acquired, because the node or the elector has stopped, or
// the node was not started.
var ErrNoLock = lifecycle.ErrNoLock

// LockFunc is a function that implements LeaderLock.
type LockFunc func(ctx context.Context, fn func(ctx context.Context, token int64) error) error

// Lead implements [LeaderLock].
func (f LockFunc) Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	return f(ctx, fn)
}

// leadAlone always leads, without a token.
func leadAlone(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	return fn(ctx, 0)
}

// withdrawTimeout limits the wait for a place in the queue to be released. It is released as soon as etcd answers.
const withdrawTimeout = 5 * time.Second

// Candidate is this process's candidacy in an election; a *cluster.Candidate is one.
type Candidate interface {
	// Lead waits until this process leads and runs fn within the term.
	Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error
	// Close ends the candidacy and releases its resources.
	Close(ctx context.Context) error
	// WatchErr delivers the reason why this process cannot stand, or nil if it can. It returns an error if the
	// candidacy is over.
	WatchErr(ctx context.Context) (<-chan error, error)
}

// Elections provides elections by name; Cluster.Elections returns one.
type Elections[C Candidate] interface {
	// Stand makes this process a candidate.
	Stand(name string, opts ...leaderelection.StandOption) (C, error)
}

// Election returns a LeaderLock that leads on the node that leads the election. This node is a candidate while
// the processor runs and withdraws when it ends, so the election should serve no other purpose.
//
// The lead belongs to the node, not to the processor. Run only one processor per election in a process: a
// second one of the same name would handle events concurrently, and only the checkpoint would stop it. With
// [Lock] and [Shard], the second one waits.
func Election[C Candidate](in Elections[C], name string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		if in == nil {
			return fmt.Errorf("%w: election %q: who has the elections is nil; give it Cluster.Elections", ErrNoLock, name)
		}
		e, err := in.Stand(name)
		if err != nil {
			return fmt.Errorf("%w: election %q: %w", ErrNoLock, name, err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
			defer cancel()
			_ = e.Close(ctx) // done as soon as etcd answers
		}()
		defer reportErrors(ctx, e)()
		err = e.Lead(ctx, func(ctx context.Context, t leaderelection.Term) error { return fn(ctx, t.Token()) })
		over := errors.Is(err, leaderelection.ErrStopped) || errors.Is(err, leaderelection.ErrNotStarted)
		if over && ctx.Err() == nil {
			return fmt.Errorf("%w: election %q: %w", ErrNoLock, name, err)
		}
		return err
	})
}

// reportErrors reports to the waiting processor each error with which etcd refuses the candidacy, once per error,
// until end is called.
func reportErrors(ctx context.Context, c Candidate) (end func()) {
	report := leadcaller.From(ctx).Report
	if report == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	errs, err := c.WatchErr(ctx)
	if err != nil {
		cancel()
		return func() {} // the candidacy is over, as Lead will report
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for err := range errs {
			if err != nil {
				report(err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// Lock returns a LeaderLock that leads on the node that holds the lock. Each processor has its own place in the
// lock's queue: a second processor waits for the first, in the same process or in another one.
func Lock(in lock.LockRegistry, name string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		if in == nil {
			return fmt.Errorf("%w: lock %q: the registry is nil; give it the one of Cluster.Locks", ErrNoLock, name)
		}
		held, err := in.Acquire(ctx, name)
		if errors.Is(err, lock.ErrStopped) || errors.Is(err, lock.ErrNotStarted) || errors.Is(err, lock.ErrBadName) {
			return fmt.Errorf("%w: lock %q: %w", ErrNoLock, name, err)
		}
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
			defer cancel()
			_ = held.Release(ctx) // lost before, or released as soon as etcd answers
		}()
		work, stop := wait.MergeContexts(ctx, held.Context())
		defer stop()
		return fn(work, held.Token())
	})
}

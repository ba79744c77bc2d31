package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/wait"
)

// LeaderLock says when this process may process. See Election, Lock, Shard and LockFunc.
type LeaderLock interface {
	// Lead waits until this process leads, runs fn, and gives the lead up when fn has returned.
	// fn's context ends with the lead, or with ctx; token is larger than that of all who led
	// before, and never 0. Lead returns what fn returned, or why fn did not run: an error that
	// matches ErrNoLock if it never will.
	Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error
}

// ErrNoLock: a leader lock cannot be had any more: the node has stopped, or is not started.
var ErrNoLock = errors.New("the leader lock cannot be had")

// LockFunc is a LeaderLock made of its Lead.
type LockFunc func(ctx context.Context, fn func(ctx context.Context, token int64) error) error

// Lead implements [LeaderLock].
func (f LockFunc) Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	return f(ctx, fn)
}

// alone runs at all times; the checkpoint finds the token.
func alone(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	return fn(ctx, 0)
}

// givingUp bounds how long it is waited that a place is given up; it is, as soon as etcd answers.
const givingUp = 5 * time.Second

// Candidate is a candidacy in an election that a process stands in, as a *cluster.Candidate is.
type Candidate interface {
	// Lead waits until this process leads and runs fn within the term.
	Lead(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error
	// Close ends the candidacy, and whatever is kept for it.
	Close(ctx context.Context) error
	// WatchErr delivers why this process cannot stand, nil if it can; the error is that it is over.
	WatchErr(ctx context.Context) (<-chan error, error)
}

// Elections has elections by name, as Cluster.Elections does.
type Elections[C Candidate] interface {
	// Stand makes this process a candidate.
	Stand(name string, opts ...election.StandOption) (C, error)
}

// Election processes on the node that leads the election. This node stands in it while the
// processor runs, and withdraws when it ends: the election should be about nothing else. The lead
// is the node's, not the processor's: run one processor for an election in a process. A second one
// of the same name would handle events beside the first, and that is what the checkpoint is left to
// stop; [Lock] and [Shard] have it wait.
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
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingUp)
			defer cancel()
			_ = e.Close(ctx) // done as soon as etcd answers
		}()
		defer reporting(ctx, e)()
		err = e.Lead(ctx, func(ctx context.Context, t election.Term) error { return fn(ctx, t.Token()) })
		if errors.Is(err, election.ErrStopped) && ctx.Err() == nil {
			return fmt.Errorf("%w: election %q: %w", ErrNoLock, name, err)
		}
		return err
	})
}

// caller is who waits for a leader lock: a processor, or the zero caller.
type caller struct {
	name   string
	report func(error) // why it waits; nil: nobody wants to know
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// reporting reports to the processor that waits what etcd refuses the election, each error once, until
// end.
func reporting(ctx context.Context, c Candidate) (end func()) {
	report := callerOf(ctx).report
	if report == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	errs, err := c.WatchErr(ctx)
	if err != nil {
		cancel()
		return func() {} // the election is over, as Lead will say
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

// Lock processes on the node that holds the lock. Each processor stands in the lock's queue for
// itself: a second one waits for the first, in this process as elsewhere.
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
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingUp)
			defer cancel()
			_ = held.Release(ctx) // lost before, or done as soon as etcd answers
		}()
		work, stop := wait.Within(ctx, held.Context())
		defer stop()
		return fn(work, held.Token())
	})
}

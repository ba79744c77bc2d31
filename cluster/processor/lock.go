package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/elections"
	"github.com/goverse/goverse/internal/state"
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

// Elections has elections by name: a *cluster.Cluster or *elections.Elections.
type Elections interface {
	Election(name string, opts ...elections.Option) (*elections.Election, error)
}

// Election processes on the node that leads the election. This node stands in it while the
// processor runs, and withdraws when it ends: the election should be about nothing else. The lead
// is the node's, not the processor's: run one processor for an election in a process. A second one
// of the same name would handle events beside the first, and that is what the checkpoint is left to
// stop; [Lock] and [Shard] have it wait.
func Election(in Elections, name string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		if in == nil {
			return fmt.Errorf("%w: election %q: who has the elections is nil; give it the *cluster.Cluster", ErrNoLock, name)
		}
		e, err := in.Election(name)
		if err != nil {
			return fmt.Errorf("%w: election %q: %w", ErrNoLock, name, err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingUp)
			defer cancel()
			_ = e.Withdraw(ctx) // done as soon as etcd answers
		}()
		defer telling(ctx, e)()
		err = e.Lead(ctx, func(ctx context.Context, t *elections.Term) error { return fn(ctx, t.Token()) })
		if errors.Is(err, elections.ErrClosed) && ctx.Err() == nil {
			return fmt.Errorf("%w: election %q: %w", ErrNoLock, name, err)
		}
		return err
	})
}

// caller is who waits for a leader lock: a processor, or the zero caller.
type caller struct {
	name string
	tell func(error) // why it waits; nil: nobody wants to know
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// telling tells the processor that waits what etcd refuses the election, each error once, until end.
func telling(ctx context.Context, e *elections.Election) (end func()) {
	tell := callerOf(ctx).tell
	if tell == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		sub := e.Subscribe()
		defer sub.Close()
		var told error
		_ = wait.Until(ctx, sub.C, func() bool {
			if err := e.Err(); err != nil && !errors.Is(told, err) {
				told = err
				tell(err)
			}
			return false
		})
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
		if errors.Is(err, lock.ErrClosed) || errors.Is(err, state.ErrBadName) {
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

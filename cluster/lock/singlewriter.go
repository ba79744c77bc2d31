package lock

import (
	"context"
	"errors"

	"github.com/goverse/goverse/internal/wait"
)

// SingleWriter is middleware. It returns a function that passes commands to next, those of the same key one at a
// time in the whole cluster, first come, first served. Commands of different keys do not wait for each other. The
// key is the name of the lock; an empty one is refused with ErrBadName.
//
//	book := lock.SingleWriter(c.Locks(), func(cmd Book) string { return "seat/" + cmd.Seat }, store.Book)
//
// With R and C of type any, next may be the handler that a gRPC interceptor gets.
//
// next's context ends with the caller's, and when the lock is lost. [FromContext] returns the lock from it, with
// the token that a store can check. If the lock was lost before next returned, the command may have overlapped
// with another one. In that case the error matches [ErrLost] as well as next's own error, and the result is still
// next's. If the lock could not be acquired, next did not run and the error is that of [LockRegistry.Acquire].
//
// The returned function blocks until next has returned and the lock is released, or ctx ends; the lock is then
// released as soon as possible. next must not pass on a command of the same key and wait for it, because it would
// wait for itself.
func SingleWriter[C, R any](locks LockRegistry, key func(C) string,
	next func(context.Context, C) (R, error)) func(context.Context, C) (R, error) {
	return func(ctx context.Context, command C) (result R, err error) {
		if locks == nil {
			return result, errors.New("lock: SingleWriter's registry is nil; give it the one of Cluster.Locks")
		}
		held, err := locks.Acquire(ctx, key(command))
		if err != nil {
			return result, err
		}
		defer func() {
			if lost := held.Release(ctx); errors.Is(lost, ErrLost) {
				err = errors.Join(err, lost)
			} // otherwise it is released later, at the latest when the session ends
		}()
		work, stop := wait.MergeContexts(ctx, held.Context())
		defer stop()
		return next(context.WithValue(work, heldKey{}, held), command)
	}
}

type heldKey struct{}

// FromContext returns the lock under which [SingleWriter] runs a command, or nil if ctx is not that of a command.
// The middleware releases it.
func FromContext(ctx context.Context) Held {
	held, _ := ctx.Value(heldKey{}).(Held)
	return held
}

package lock

import (
	"context"
	"errors"

	"github.com/goverse/goverse/internal/wait"
)

// SingleWriter is middleware: what it returns hands commands on to next, of each key one at a
// time in the whole cluster, first come, first served. Commands of different keys do not wait
// for each other. The lock's name is the key; one of no bytes is refused with
// ErrBadName.
//
//	book := lock.SingleWriter(c.Locks(), func(cmd Book) string { return "seat/" + cmd.Seat }, store.Book)
//
// With R and C of type any, next may be the handler that a gRPC interceptor gets.
//
// next's context ends with the caller's, and when the lock is lost; [FromContext] has the
// lock in it, with the token that a store can check. If the lock was lost before next
// returned, the command may have been carried out beside another one: the error then matches
// [ErrLost], beside next's own, and the result is still next's. Where the lock could not be
// had, next did not run and the error is that of [LockRegistry.Acquire].
//
// It blocks until next has returned and the lock is released, or ctx ends; the lock is then
// released as soon as possible. next must not hand on a command of the same key, and wait for
// it: that would wait for itself.
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
			} // else it is released later at the worst
		}()
		work, stop := wait.Within(ctx, held.Context())
		defer stop()
		return next(context.WithValue(work, heldKey{}, held), command)
	}
}

type heldKey struct{}

// FromContext is the lock that [SingleWriter] runs a command under, nil if it runs none in
// this context. It is the middleware's to release.
func FromContext(ctx context.Context) Held {
	held, _ := ctx.Value(heldKey{}).(Held)
	return held
}

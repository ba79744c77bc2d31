package once

import "context"

// Registry runs effects and keeps their marks. Effects of package cluster implements it on etcd, and package
// cluster/once/postgres in PostgreSQL. All methods are safe for concurrent use. They block until the store has
// answered, or ctx ends.
type Registry interface {
	// Once runs fn, unless the effect of that name already took place: then it returns the value that fn returned
	// then. While another caller runs the effect, Once waits. An error of fn is returned as it is, and recorded: the
	// next call runs fn again.
	//
	// fn gets a fencing token that is larger than those of all earlier attempts, and a context that ends with ctx,
	// and at the session's deadline. fn must not call Once with the same name, because that call would wait for
	// itself.
	//
	// Besides fn's errors, Once returns an error if fn is nil; an [UnknownError] if this attempt or an earlier one
	// left open whether the effect took place; ErrValueTooLong if the effect took place; ErrBadName; ErrNotStarted;
	// ErrStopped; and, if fn did not run, ctx's cause or the store's error. After fn has returned, Once goes on until
	// the outcome is stored or the session is lost, even if ctx has ended. If fn panics or exits its goroutine, the
	// outcome stays unknown.
	Once(ctx context.Context, name string, fn func(ctx context.Context, token int64) ([]byte, error)) (Result, error)
	// Resolve records the outcome of the attempt with that token if it is unknown: either the effect took place, with
	// that value, or it did not and the next call of Once runs it again. It waits for an attempt that still runs. The
	// error matches ErrNotUnknown if there is no such attempt, or if it was resolved differently in the meantime, and
	// ErrValueTooLong if the value is too long. Other errors are ErrBadName, ErrNotStarted, ErrStopped, ctx's cause
	// and the store's.
	Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error
	// Look reads the state of one effect without changing it. Errors are ErrNoMark, ErrBadName, ErrNotStarted,
	// ErrStopped, and the store's.
	Look(ctx context.Context, name string) (Standing, error)
	// List reads the states of effects, by name; more reports whether others follow the last one. If ctx's deadline
	// ends it, the error names the place where the list continues, and found has what was read.
	List(ctx context.Context, q Query) (found []Standing, more bool, err error)
}

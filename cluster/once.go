package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
)

// Effects runs functions at most once in the whole cluster; see package once. All methods are safe for concurrent
// use. They block until etcd has answered, or ctx ends. Their error is ErrNotStarted until Start has returned,
// and ErrStopped after Stop.
type Effects struct{ c *Cluster }

var _ once.Registry = (*Effects)(nil)

// Effects returns the handle for effects, functions that run at most once in the whole cluster. It is never nil.
func (c *Cluster) Effects() *Effects { return &c.effects }

// Once runs fn, unless the effect of that name already took place on any node. In that case it returns the value
// that fn returned then. While another process runs the effect, Once waits. An error of fn is returned as it is,
// and recorded: the next call runs fn again.
//
// fn receives a fencing token that is larger than those of all earlier attempts. Pass it to the system that
// receives the effect. fn's context ends with ctx, and at the session's deadline. The returned value is stored in
// etcd unless it is longer than once.MaxValue. In that case every caller gets once.ErrValueTooLong, and only this
// call returns the value with it. fn must not call Once with the same name, because that call would wait for
// itself.
//
// Besides fn's errors, Once returns an error if fn is nil; a once.UnknownError if this attempt or an earlier one
// left open whether the effect took place; once.ErrValueTooLong if the effect took place; once.ErrBadName;
// ErrNotStarted; ErrStopped; and, if fn did not run, ctx's cause or etcd's error. After fn has returned, Once
// goes on until etcd has stored the outcome or the session is lost, even if ctx has ended. If fn panics or exits
// its goroutine, the outcome stays unknown.
func (e *Effects) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	p, err := e.c.runningParts()
	if err != nil {
		return once.Result{}, err
	}
	return p.work.effects.Once(ctx, name, fn)
}

// Resolve records the outcome of the attempt with that token if it is unknown: either the effect took place, with
// that value, or it did not and the next call of Once runs it again. The error matches once.ErrNotUnknown if
// there is no such attempt, or if it was resolved differently in the meantime, and once.ErrValueTooLong if the
// value is too long. Other errors are once.ErrBadName, ErrNotStarted, ErrStopped, ctx's cause and etcd's error.
func (e *Effects) Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error {
	p, err := e.c.runningParts()
	if err != nil {
		return err
	}
	return p.work.effects.Resolve(ctx, name, token, tookPlace, value)
}

// Look reads the state of one effect without changing it. Errors are once.ErrNoMark, once.ErrBadName,
// ErrNotStarted, ErrStopped, and etcd's.
func (e *Effects) Look(ctx context.Context, name string) (once.Standing, error) {
	p, err := e.c.runningParts()
	if err != nil {
		return once.Standing{}, err
	}
	return effects.ReadState(ctx, p.client, e.c.keys, name)
}

// List reads the states of effects, by name; more reports whether others follow the last one. Each is read at one
// revision, but not all at the same one. Effects with an unknown outcome are found without reading the others.
// Errors are ErrNotStarted, ErrStopped, an [UnfinishedError], and etcd's.
func (e *Effects) List(ctx context.Context, q once.Query) (found []once.Standing, more bool, err error) {
	p, err := e.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	return effects.List(ctx, p.client, e.c.keys, q)
}

// Once runs fn at most once in the whole cluster; see [Effects.Once].
func (c *Cluster) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	return c.effects.Once(ctx, name, fn)
}

package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
)

// Effects are what runs at most once in the whole cluster; see package once. All methods are safe for
// concurrent use and block until etcd has answered, or ctx ends. Until Start has returned their error is
// ErrNotStarted, after Stop ErrStopped.
type Effects struct{ c *Cluster }

// Effects are what runs at most once in the whole cluster. It is never nil.
func (c *Cluster) Effects() *Effects { return &c.effects }

// Once runs fn, unless the effect of that name took place before, on whichever node: then it returns what
// fn returned at that time. While another process runs it, Once waits. An error of fn is returned as it
// is, and remembered: the next call runs fn again.
//
// fn gets a fencing token, larger than that of every attempt before, to give to whatever receives the
// effect. Its context ends with ctx, and at the session's deadline. What it returns is kept in etcd, if it
// is not longer than once.MaxValue; else every caller gets once.ErrValueTooLong, and this call alone the value
// with it. fn must not call Once with the same name: that would wait for itself.
//
// Errors beside fn's, and that it is nil: a once.UnknownError if an attempt, this one or one before, left
// open whether the effect took place; once.ErrValueTooLong if it did; once.ErrBadName; ErrNotStarted;
// ErrStopped; ctx's cause, or etcd's error, if fn did not run. When fn has returned, Once goes on until
// etcd has the outcome or the session is lost, also if ctx has ended. Where fn panics, or leaves its
// goroutine, the outcome stays unknown.
func (e *Effects) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	p, err := e.c.running()
	if err != nil {
		return once.Result{}, err
	}
	return p.work.effects.Once(ctx, name, fn)
}

// Resolve says what is true of the attempt with that token, whose outcome is unknown: that the effect took
// place, with that value; or not, and the next call of Once runs it again. The error matches
// once.ErrNotUnknown if there is no such attempt, or it was resolved otherwise meanwhile, and
// once.ErrValueTooLong if the value is; else it is one of once.ErrBadName, ErrNotStarted, ErrStopped,
// ctx's cause and etcd's error.
func (e *Effects) Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error {
	p, err := e.c.running()
	if err != nil {
		return err
	}
	return p.work.effects.Resolve(ctx, name, token, tookPlace, value)
}

// Look reads how an effect stands, and changes nothing. Errors are once.ErrNoMark, once.ErrBadName,
// ErrNotStarted, ErrStopped, and etcd's.
func (e *Effects) Look(ctx context.Context, name string) (once.Standing, error) {
	p, err := e.c.running()
	if err != nil {
		return once.Standing{}, err
	}
	return effects.Look(ctx, p.client, e.c.keys, name)
}

// List reads how effects stand, by name; more says that there are others behind the last. Each is read at
// one revision, and not all at the same. Those whose outcome is unknown are found without reading the
// others. Errors are ErrNotStarted, ErrStopped, an [UnfinishedError], and etcd's.
func (e *Effects) List(ctx context.Context, q once.Query) (found []once.Standing, more bool, err error) {
	p, err := e.c.running()
	if err != nil {
		return nil, false, err
	}
	return effects.List(ctx, p.client, e.c.keys, q)
}

// Once is [Effects.Once].
func (c *Cluster) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	return c.effects.Once(ctx, name, fn)
}

package lock

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
)

var (
	// errAgain: the entry is no more; whoever wants the lock queues anew.
	errAgain = errors.New("the place in the queue is lost")
	// errTaken: who only tries does not wait.
	errTaken = errors.New("another one holds the lock")
	// errKeyGone: hands from outside.
	errKeyGone = errors.New("its key in etcd is gone, and this process did not delete it")
)

// phase is how far an entry has come.
type phase int8

const (
	asked   phase = iota // on its way to etcd
	waiting              // in the queue
	holding              // the lock is held, or was
	over                 // without ever holding
)

// entry is one place in a queue, from the wish to the end. It is the Held of whoever gets
// the lock.
type entry struct {
	run       *run
	name, key string
	queue     string
	shared    bool
	try       bool
	settled   chan struct{} // closed when phase is holding or over

	mu       sync.Mutex
	phase    phase
	unwanted bool  // it is to be deleted, if it ever comes to be
	leaving  bool  // its deletion is under way
	create   int64 // CreateRevision of its key
	stretch  *session.Stretch
	err      error // of over; or why the lock was lost

	ctx    context.Context // made when first asked for
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when the key is deleted, made by Release
}

func (x *entry) Name() string { return x.name }

func (x *entry) Token() int64 { return x.create } // never changes while it is held

// Context implements [Held].
func (x *entry) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.context()
}

func (x *entry) context() context.Context {
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(x.stretch.Context())
		switch {
		case x.err != nil:
			x.cancel(x.err)
		case x.leaving:
			x.cancel(ErrReleased)
		}
	}
	return x.ctx
}

// Valid implements [Held].
func (x *entry) Valid() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.valid()
}

func (x *entry) valid() bool { return x.err == nil && !x.leaving && x.stretch.Valid() }

// Guard implements [Guarded].
func (x *entry) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.create)
}

// Release implements [Held].
func (x *entry) Release(ctx context.Context) error {
	x.mu.Lock()
	valid := x.valid()
	if x.gone == nil {
		x.gone = make(chan struct{})
		if !valid && x.err == nil && !x.leaving {
			x.err = &LostError{Name: x.name, Token: x.create, Err: context.Cause(x.stretch.Context())}
		}
	}
	gone, err := x.gone, x.err
	x.mu.Unlock()
	x.leave(ErrReleased)
	select {
	case <-gone:
	case <-x.run.ctx.Done(): // the lease ends, or has
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return err
}

// outcome is why the lock is not held; nil if it is. To be asked when it is settled.
func (x *entry) outcome() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == holding {
		return nil
	}
	return x.err
}

// abandon: nobody waits for the lock any longer.
func (x *entry) abandon() { x.leave(ErrReleased) }

// leave deletes the key, as soon as there is one.
func (x *entry) leave(cause error) {
	x.mu.Lock()
	x.unwanted = true
	now := x.phase != asked && !x.leaving
	if now {
		x.leaving = true
		if x.cancel != nil {
			x.cancel(cause)
		}
	}
	x.mu.Unlock()
	if now {
		x.run.leave(x)
	}
}

// entered: the key was created. holds says that it came first.
func (x *entry) entered(create int64, holds bool) {
	x.mu.Lock()
	x.create, x.phase = create, waiting
	unwanted := x.unwanted
	x.mu.Unlock()
	switch {
	case unwanted:
		x.leave(ErrReleased)
	case holds && x.grant():
	case x.try:
		x.end(errTaken)
		x.leave(ErrReleased)
	default:
		x.run.wait(x)
	}
}

// grant makes the caller the holder, if the session may be acted on.
func (x *entry) grant() bool {
	s := x.run.s
	stretch := s.Stretch()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != waiting || x.unwanted || !stretch.Valid() || s.InDoubt() {
		return false
	}
	x.phase, x.stretch = holding, stretch
	close(x.settled)
	return true
}

// end settles an entry that does not hold.
func (x *entry) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == holding || x.phase == over {
		return
	}
	x.phase, x.err = over, err
	close(x.settled)
}

// vanished: the key is gone, and nobody here deleted it.
func (x *entry) vanished() {
	x.end(errAgain)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != holding || x.err != nil || x.leaving {
		return
	}
	x.err = &LostError{Name: x.name, Token: x.create, Err: errKeyGone}
	if x.cancel != nil {
		x.cancel(x.err)
	}
}

// stands reports whether the key should be there.
func (x *entry) stands() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return (x.phase == waiting || x.phase == holding) && !x.leaving && x.err == nil
}

// deleted: as it was to be.
func (x *entry) deleted() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone == nil {
		x.gone = make(chan struct{})
	}
	close(x.gone)
}

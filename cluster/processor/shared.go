package processor

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/internal/leadcaller"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/wait"
)

// Shared returns a LeaderLock that processors and automations of one process share: the lock is acquired once for all
// of them, and they run in the same term, with the same token. Give the returned lock to each.
//
//	publishers := processor.Shared(processor.Lock(c.Locks(), "publishers"))
//	orders, err := processor.New(processor.Config[Order]{LeaderLock: publishers, …
//	emails, err := processor.New(processor.Config[Email]{LeaderLock: publishers, …
//
// The first call of Lead waits for the lock; the others join. A call that comes later joins the term that runs. The
// lock is released when every function has returned. If the lock is lost, the contexts of all functions end, and the
// lock is acquired anew when all have returned. So it is if one of them returns an error while it may still run, as
// after ErrFenced: the token is then too old for the others, too. If a call's own context ends, it leaves the others
// alone.
//
// Checkpoints are not affected: each has its own name, and all accept the same token.
func Shared(lock LeaderLock) LeaderLock { return &sharedLock{lock: lock} }

type sharedLock struct {
	lock LeaderLock
	mu   sync.Mutex
	term *sharedTerm // nil: the lock is neither held nor requested
}

// sharedTerm is one acquisition of the lock and the term that follows. The fields below mu are those of sharedLock.
type sharedTerm struct {
	lock *sharedLock
	led  chan struct{} // closed when the term begins; ctx and token are then set
	over chan struct{} // closed when the lock is released or was not acquired; err is then set
	idle chan struct{} // closed when no function runs and none will
	stop context.CancelFunc

	ctx   context.Context
	token int64
	err   error

	members map[*sharedMember]bool
	ending  bool // no further member may join
}

// sharedMember is one call of Lead.
type sharedMember struct{ report func(error) }

// Lead implements [LeaderLock].
func (s *sharedLock) Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	m := &sharedMember{leadcaller.From(ctx).Report}
	for ctx.Err() == nil {
		t, joined := s.join(ctx, m)
		if joined {
			return t.lead(ctx, m, fn)
		}
		select { // the former term ends first
		case <-t.over:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// join adds a member to the present term, which it begins if there is none. It returns false if that term is ending.
func (s *sharedLock) join(ctx context.Context, m *sharedMember) (t *sharedTerm, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t = s.term; {
	case t == nil:
		waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
		t = &sharedTerm{lock: s, led: make(chan struct{}), over: make(chan struct{}), idle: make(chan struct{}), stop: stop,
			members: map[*sharedMember]bool{m: true}}
		s.term = t
		go t.run(leadcaller.With(waiting, leadcaller.Caller{Name: leadcaller.From(ctx).Name, Report: t.report}))
		return t, true
	case t.ending || t.ctx != nil && t.ctx.Err() != nil:
		return t, false
	}
	t.members[m] = true
	return t, true
}

// run acquires the lock and holds it until no member is left. The last member waits for it.
func (t *sharedTerm) run(waiting context.Context) {
	defer t.stop()
	err := callback.ErrExited // unless Lead returns
	defer func() {
		t.lock.mu.Lock()
		t.err, t.ending, t.lock.term = err, true, nil
		t.lock.mu.Unlock()
		close(t.over)
	}()
	err = t.lock.lock.Lead(waiting, func(ctx context.Context, token int64) error {
		t.lock.mu.Lock()
		t.ctx, t.token = ctx, token
		t.lock.mu.Unlock()
		close(t.led)
		<-t.idle
		return context.Cause(ctx)
	})
}

// lead runs fn in the term and leaves it.
func (t *sharedTerm) lead(ctx context.Context, m *sharedMember, fn func(ctx context.Context,
	token int64) error) (err error) {
	defer func() { t.leave(m) }()
	select {
	case <-t.led:
	case <-t.over: // the lock was not acquired
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	work, stop := wait.MergeContexts(ctx, t.ctx)
	defer stop()
	failed := true // also if fn panics or leaves its goroutine
	defer func() {
		if failed && work.Err() == nil {
			t.end()
		}
	}()
	err = fn(work, t.token)
	failed = err != nil
	return err
}

// end makes the term end: its members' contexts end, and no further one joins.
func (t *sharedTerm) end() {
	t.lock.mu.Lock()
	t.ending = true
	t.lock.mu.Unlock()
	t.stop()
}

// leave removes a member. The last one ends the term and waits until the lock is released.
func (t *sharedTerm) leave(m *sharedMember) {
	t.lock.mu.Lock()
	delete(t.members, m)
	last := len(t.members) == 0
	if last {
		t.ending = true
	}
	t.lock.mu.Unlock()
	if !last {
		return
	}
	t.stop()
	close(t.idle)
	<-t.over
}

// report passes a reason for waiting on to all members.
func (t *sharedTerm) report(err error) {
	t.lock.mu.Lock()
	var all []func(error)
	for m := range t.members {
		if m.report != nil {
			all = append(all, m.report)
		}
	}
	t.lock.mu.Unlock()
	for _, report := range all {
		report(err)
	}
}

package leasequeue

import (
	"context"

	"github.com/goverse/goverse/internal/wait"
)

// View is this process's view of the members from which other members may take over.
type View interface {
	// Fresh reports whether it is certain that no member can rely on a key that etcd has removed, now or soon.
	// term is etcd's present raft term. Fresh does not block and takes no lock.
	Fresh(term uint64) bool
	// Confirm blocks until the view contains all that etcd had committed before the call. It then reports
	// whether no member can rely on a key that was gone at that time. With wait it blocks until none can.
	Confirm(ctx context.Context, wait bool) (clear bool, err error)
}

// confirmer holds back entries that are first while a former holder may still rely on a key that etcd removed
// too early. One request serves all entries that arrived since the one before.
type confirmer struct {
	r    *run
	wait bool // wait for such holders; otherwise assume that they are still there
	wake chan struct{}
	held []*Entry // guarded by Engine.mu
}

func newClearing(r *run, wait bool) *confirmer {
	return &confirmer{r: r, wait: wait, wake: make(chan struct{}, 1)}
}

// add holds back an entry. The caller holds Engine.mu.
func (c *confirmer) add(x *Entry) {
	c.held = append(c.held, x)
	poke(c.wake)
}

func (c *confirmer) take() []*Entry {
	c.r.e.mu.Lock()
	defer c.r.e.mu.Unlock()
	held := c.held
	c.held = nil
	return held
}

// run clears entries until the session is lost.
func (c *confirmer) run() {
	for {
		select {
		case <-c.wake:
		case <-c.r.ctx.Done():
			return
		}
		held := c.take()
		if len(held) == 0 {
			continue // an earlier round served them
		}
		clear, ok := c.confirm()
		if !ok {
			return
		}
		c.r.e.with(func() {
			for _, x := range held {
				x.confirmed(clear)
			}
		})
	}
}

// confirm asks the view until it answers. It returns ok = false when the session is lost.
func (c *confirmer) confirm() (clear, ok bool) {
	retry := c.r.e.retry(watchRetry)
	for {
		clear, err := c.r.e.cfg.View.Confirm(c.r.ctx, c.wait)
		if err == nil {
			return clear, true
		}
		if retry.Failures() == 0 && c.r.ctx.Err() == nil {
			c.r.e.cfg.Logger.Warn("no grants until the member view is confirmed, retrying",
				"error", err)
		}
		if !wait.For(c.r.ctx, retry.Next()) {
			return false, false
		}
	}
}

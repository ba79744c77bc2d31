package leasequeue

import (
	"context"

	"github.com/goverse/goverse/internal/wait"
)

// View is what this process knows of the processes whose places others may take over.
type View interface {
	// Fresh reports whether nobody can count on a place that is gone from etcd, now or soon, in
	// that raft term of etcd's. It does not block, and takes no lock.
	Fresh(term uint64) bool
	// Confirm blocks until the view lacks nothing that etcd had done before the call, and reports
	// whether nobody can count on a place that was gone then; with wait it blocks until nobody can.
	Confirm(ctx context.Context, wait bool) (clear bool, err error)
}

// clearing holds entries that are first until nobody can count on one that was before them and is gone
// from etcd, but perhaps too early. One request asks for all that have come since the one before.
type clearing struct {
	r    *run
	wait bool // for those who may still count on theirs; else they are taken to be there
	wake chan struct{}
	held []*Entry // with the engine's lock held
}

func newClearing(r *run, wait bool) *clearing {
	return &clearing{r: r, wait: wait, wake: make(chan struct{}, 1)}
}

// add holds an entry. The lock is held.
func (c *clearing) add(x *Entry) {
	c.held = append(c.held, x)
	poke(c.wake)
}

func (c *clearing) take() []*Entry {
	c.r.e.mu.Lock()
	defer c.r.e.mu.Unlock()
	held := c.held
	c.held = nil
	return held
}

// run clears entries until the session is lost.
func (c *clearing) run() {
	for {
		select {
		case <-c.wake:
		case <-c.r.ctx.Done():
			return
		}
		held := c.take()
		if len(held) == 0 {
			continue // they went with those before
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

// confirm asks until there is an answer. It returns ok = false when the session is lost.
func (c *clearing) confirm() (clear, ok bool) {
	retry := c.r.e.retry(watchRetry)
	for {
		clear, err := c.r.e.cfg.View.Confirm(c.r.ctx, c.wait)
		if err == nil {
			return clear, true
		}
		if retry.Failures() == 0 && c.r.ctx.Err() == nil {
			c.r.e.cfg.Logger.Warn("could not read who else is there, retrying: until then nobody here gets a place",
				"error", err)
		}
		if !wait.For(c.r.ctx, retry.Next()) {
			return false, false
		}
	}
}

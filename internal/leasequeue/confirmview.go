package leasequeue

import (
	"context"

	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/wait"
)

// MemberView is this process's view of the members from which other members may take over.
type MemberView interface {
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
	r              *sessionRun
	waitForHolders bool // wait for such holders; otherwise assume that they are still there
	wake           wait.Signal
	heldEntries    []*Entry // guarded by Engine.mu
}

func newConfirmer(r *sessionRun, waitForHolders bool) *confirmer {
	return &confirmer{r: r, waitForHolders: waitForHolders, wake: wait.NewSignal()}
}

// addEntry holds back an entry. The caller holds Engine.mu.
func (c *confirmer) addEntry(x *Entry) {
	c.heldEntries = append(c.heldEntries, x)
	c.wake.Send()
}

func (c *confirmer) takeEntries() []*Entry {
	c.r.e.mu.Lock()
	defer c.r.e.mu.Unlock()
	held := c.heldEntries
	c.heldEntries = nil
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
		held := c.takeEntries()
		if len(held) == 0 {
			continue // an earlier round served them
		}
		clear, ok := c.confirmView()
		if !ok {
			return
		}
		c.r.e.withLock(func() {
			for _, x := range held {
				x.applyInSession(func(p entrystate.State, s entrystate.Session) (entrystate.State, entrystate.Orders) {
					return p.ReleaseConfirmed(clear, s)
				})
			}
		})
	}
}

// confirmView asks the view until it answers. It returns ok = false when the session is lost.
func (c *confirmer) confirmView() (clear, ok bool) {
	retry := c.r.e.newBackoff(watchRetry)
	for {
		clear, err := c.r.e.cfg.View.Confirm(c.r.ctx, c.waitForHolders)
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

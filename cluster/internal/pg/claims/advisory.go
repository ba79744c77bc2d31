package claims

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// Advisory is an advisory lock of PostgreSQL that a grant takes beside its claim, so that programs that only know the
// advisory lock are excluded, too.
type Advisory struct {
	Key    int64
	Shared bool
}

// advisoryRetry is the pause before an advisory lock that another program holds is tried again.
const advisoryRetry = 50 * time.Millisecond

// function returns the name of one of PostgreSQL's functions for the lock.
func (a *Advisory) function(name string) string {
	if a.Shared {
		name += "_shared"
	}
	return "SELECT " + name + "($1)"
}

// takeAdvisory takes the advisory lock of a granted claim. It waits for it until ctx or the grant ends, or tries it
// once. The lock is held by the session's main connection, so it ends with the session.
func (c *Claim) takeAdvisory(ctx context.Context) (taken bool, err error) {
	a := c.spec.Advisory
	ctx, stop := wait.MergeContexts(ctx, c.ctx)
	defer stop()
	for {
		taken, err := c.s.runErrand(ctx, a.function("pg_try_advisory_lock"), a.Key)
		switch {
		case taken:
			c.s.mu.Lock()
			c.advisory = true
			c.s.mu.Unlock()
			return true, nil
		case err != nil || c.spec.Try:
			return false, err
		}
		if !wait.For(ctx, advisoryRetry) {
			return false, context.Cause(ctx)
		}
	}
}

// giveUp ends a granted claim, gives up the advisory lock if it has one, and then sends the release. It does not block.
func (c *Claim) giveUp() {
	c.s.mu.Lock()
	end, held := c.endLocked(ErrReleased), c.advisory
	c.advisory = false
	c.s.mu.Unlock()
	end()
	if held && c.s.k.tasks.Go(func(context.Context) {
		// An error means that the session has ended, and the lock with it.
		_, _ = c.s.runErrand(context.Background(), c.spec.Advisory.function("pg_advisory_unlock"), c.spec.Advisory.Key)
		c.s.release(c, ErrReleased)
	}) {
		return
	}
	c.s.release(c, ErrReleased)
}

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// currency detects that this node's view of the cluster may be out of date. Clients ask nodes where objects are;
// when the view may be out of date, they can ask another node.
type currency struct {
	ttl   time.Duration
	valid func() bool      // reports whether the session is valid
	known func() time.Time // returns the latest time up to which the view is known to be complete

	now atomic.Pointer[currentPeriod]
}

// currentPeriod is a period during which the view is current.
type currentPeriod struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newCurrency(ttl time.Duration, valid func() bool, known func() time.Time) *currency {
	c := &currency{ttl: ttl, valid: valid, known: known}
	c.begin()
	return c
}

func (c *currency) begin() {
	p := &currentPeriod{}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	c.now.Store(p)
}

// context returns the context of the current period. It ends, with the reason as its cause, once the view may be
// out of date. While it may be, the returned context has already ended.
func (c *currency) context() context.Context { return c.now.Load().ctx }

// run keeps context up to date until ctx ends.
func (c *currency) run(ctx context.Context) {
	look := time.NewTicker(min(max(c.ttl/20, 20*time.Millisecond), 250*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		err := outOfDate(c.valid(), c.known(), time.Now(), c.ttl)
		switch p := c.now.Load(); {
		case err != nil:
			p.end(err) // only the first call has an effect
		case p.ctx.Err() != nil:
			c.begin()
		}
	}
}

// outOfDate returns the reason why a view last known to be complete at the given time may be out of date, or nil
// if it is current. With a valid session the view is current, because etcd has answered within the TTL. Without
// one it may be out of date once it is older than a TTL, because other nodes may then own what this node owned. A
// session that is briefly suspended, or reopened, does not make it out of date.
func outOfDate(valid bool, known, now time.Time, ttl time.Duration) error {
	if age := now.Sub(known); !valid && age > ttl {
		return fmt.Errorf("this node has had no answer from etcd for %v, and does not know what the others do",
			age.Round(100*time.Millisecond))
	}
	return nil
}

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// currency tells whether this node's view of the cluster may be out of date: others ask it where objects are, and can
// ask another node.
type currency struct {
	ttl   time.Duration
	valid func() bool      // whether the session is valid
	known func() time.Time // the latest time of which the view lacks nothing

	now atomic.Pointer[currentPeriod]
}

// currentPeriod is a time in which the view is current.
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

// context ends, with the reason as its cause, when the view may be out of date, and has ended as long as it may be.
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
			p.end(err) // the first time counts
		case p.ctx.Err() != nil:
			c.begin()
		}
	}
}

// outOfDate returns why a view that is known to have lacked nothing at that time may be out of date, nil if it is not.
// With a valid session it is not: etcd has answered within the TTL. Without one it is once it is older than a TTL, for
// others may own then what this node owned. A session that is suspended for a moment, or opened anew, concerns nobody.
func outOfDate(valid bool, known, now time.Time, ttl time.Duration) error {
	if age := now.Sub(known); !valid && age > ttl {
		return fmt.Errorf("this node has had no answer from etcd for %v, and does not know what the others do",
			age.Round(100*time.Millisecond))
	}
	return nil
}

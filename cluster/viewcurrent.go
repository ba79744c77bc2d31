package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// viewMonitor detects that this node's view of the cluster may be out of date. Clients ask nodes where objects are;
// when the view may be out of date, they can ask another node.
type viewMonitor struct {
	ttl        time.Duration
	valid      func() bool      // reports whether the session is valid
	knownUntil func() time.Time // returns the latest time up to which the view is known to be complete

	period atomic.Pointer[currentPeriod]
}

// currentPeriod is a period during which the view is current.
type currentPeriod struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newViewMonitor(ttl time.Duration, valid func() bool, known func() time.Time) *viewMonitor {
	m := &viewMonitor{ttl: ttl, valid: valid, knownUntil: known}
	m.beginPeriod()
	return m
}

func (m *viewMonitor) beginPeriod() {
	p := &currentPeriod{}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	m.period.Store(p)
}

// currentContext returns the context of the current period. It ends, with the reason as its cause, once the view may be
// out of date. While it may be, the returned context has already ended.
func (m *viewMonitor) currentContext() context.Context { return m.period.Load().ctx }

// run keeps currentContext up to date until ctx ends.
func (m *viewMonitor) run(ctx context.Context) {
	look := time.NewTicker(min(max(m.ttl/20, 20*time.Millisecond), 250*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		err := outOfDateReason(m.valid(), m.knownUntil(), time.Now(), m.ttl)
		switch p := m.period.Load(); {
		case err != nil:
			p.end(err) // only the first call has an effect
		case p.ctx.Err() != nil:
			m.beginPeriod()
		}
	}
}

// outOfDateReason returns the reason why a view last known to be complete at the given time may be out of date, or nil
// if it is current. With a valid session the view is current, because etcd has answered within the TTL. Without
// one it may be out of date once it is older than a TTL, because other nodes may then own what this node owned. A
// session that is briefly suspended, or reopened, does not make it out of date.
func outOfDateReason(valid bool, known, now time.Time, ttl time.Duration) error {
	if age := now.Sub(known); !valid && age > ttl {
		return fmt.Errorf("this node has had no answer from etcd for %v, and does not know what the others do",
			age.Round(100*time.Millisecond))
	}
	return nil
}

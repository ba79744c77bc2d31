package member

import (
	"context"
	"time"
)

// markTimeout limits the requests that a stopping member makes only for the sake of others. They take a millisecond
// unless etcd is away.
const markTimeout = time.Second

// withMarkTimeout returns a context for requests that this member makes only for the sake of others.
func (m *Member) withMarkTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(m.cfg.RequestTimeout, markTimeout))
}

// announceStop records that this member stops. etcd's confirmation shows that the others can know it and take over.
func (m *Member) announceStop(ctx context.Context, r *StopReport) {
	m.Membership.MarkStopping()
	if s := m.Keeper.Current(); s == nil || !s.Period().ValidDespitePause() {
		return
	}
	marking, cancel := m.withMarkTimeout(ctx)
	defer cancel()
	r.Announced = m.Membership.AwaitRecorded(marking) == nil
	if !r.Announced && ctx.Err() != nil {
		r.RecordStep("mark stopping", context.Cause(ctx))
	}
}

// leave makes the last requests, ends the session and revokes its lease. If etcd does not answer, it blocks for about
// a second longer, and the keys stay until the lease ends.
func (m *Member) leave(ctx context.Context, r *StopReport, writeLast func(context.Context)) {
	if len(r.CutShort) == 0 {
		m.markLeft(ctx)
	}
	if writeLast != nil {
		last, cancel := m.withMarkTimeout(ctx)
		writeLast(last)
		cancel()
	}
	m.stopKeeper()
	<-m.keeperDone
	r.Left = m.Keeper.RevokeError()
}

// markLeft records that the others need not wait for this member. All its work must have ended. Without the record
// they wait, because they cannot distinguish this member from one that does not know that its lease is gone.
func (m *Member) markLeft(ctx context.Context) {
	s := m.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() || s.RaftTerm() >= m.Mirror.KnownTerm() {
		return
	}
	m.Membership.MarkLeft()
	ctx, cancel := m.withMarkTimeout(ctx)
	defer cancel()
	_ = m.Membership.AwaitRecorded(ctx) // if it fails, the others wait
}

// close ends the remaining goroutines and waits for them.
func (m *Member) close() {
	m.stopBackground()
	m.background.Wait()
}

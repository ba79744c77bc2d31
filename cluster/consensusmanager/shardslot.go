package consensusmanager

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding/ownership"
)

// slotPhase is the state of a shard on this node.
type slotPhase int8

const (
	phaseFree      slotPhase = iota
	phaseAcquiring           // OnAcquire runs
	phaseServing
	phaseReleasing // waits for what runs in it, then calls OnRelease
)

// shardSlot holds the state of one shard on this node.
type shardSlot struct {
	mu          sync.Mutex
	phase       slotPhase
	releaseNext bool // while acquiring: release it right after
	epoch       int64
	calls       int                 // calls that run in it
	period      *etcdsession.Period // validity period in which it was acquired
	drained     chan struct{}       // closed when calls falls to 0 while releasing; nil if not waited for
	servedNext  chan struct{}       // closed when the shard is served next; nil if not waited for
	arrival     moveArrival

	ctx    context.Context // the owner's context; made on demand, like stay
	cancel context.CancelCauseFunc

	stay    context.Context // ends as soon as the shard is no longer served
	endStay context.CancelCauseFunc
}

// heldEpoch returns the epoch under which the shard is held, 0 if it is free, and ownership.Lapsed if it was
// acquired in another period.
func (s *shardSlot) heldEpoch(period *etcdsession.Period) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != 0 && s.period != period {
		return ownership.Lapsed
	}
	return s.epoch
}

// ownerContext returns the owner's context. It ends when the shard is released, and at the session's deadline. The
// caller holds s.mu.
func (s *shardSlot) ownerContext() context.Context {
	if s.phase == phaseFree {
		return releasedContext
	}
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(s.period.Context())
	}
	return s.ctx
}

// stayContext returns a context that ends as soon as the shard is no longer served. The caller holds s.mu.
func (s *shardSlot) stayContext() context.Context {
	if s.phase == phaseFree {
		return releasedContext
	}
	if s.stay == nil {
		s.stay, s.endStay = context.WithCancelCause(s.ownerContext())
		if s.phase != phaseServing {
			s.endStay(shard.ErrNotOwner)
		}
	}
	return s.stay
}

// releasedContext is the context of a shard that is not held.
var releasedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(shard.ErrNotOwner)
	return ctx
}()

// cancelOwnerContext ends the owner's context. The caller holds s.mu.
func (s *shardSlot) cancelOwnerContext() {
	if s.cancel != nil {
		s.cancel(shard.ErrNotOwner)
	}
}

// endOwnerContext ends the owner's context.
func (s *shardSlot) endOwnerContext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 {
		s.ownerContext() // create the context so that later callers find it ended
	}
	s.cancelOwnerContext()
}

// enterCall admits a call if the shard is served at this instant.
func (s *shardSlot) enterCall() (ctx context.Context, epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isServed() {
		return nil, 0, false
	}
	s.calls++
	return s.ownerContext(), s.epoch, true
}

// admitCall is enterCall without the owner's context.
func (s *shardSlot) admitCall() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isServed() {
		return 0, false
	}
	s.calls++
	return s.epoch, true
}

// readmitCall is like admitCall, but also admits calls while the shard is being released, as long as other calls run in
// it.
func (s *shardSlot) readmitCall() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseServing && s.phase != phaseReleasing || s.calls == 0 || !s.period.Valid() {
		return 0, false
	}
	s.calls++
	return s.epoch, true
}

// enterStay is enterCall for functions that stay until the shard must be released: the context ends then. If the shard
// is not served, enterStay returns a channel that is closed when it is.
func (s *shardSlot) enterStay() (ctx context.Context, epoch int64, awaited <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isServed() {
		return nil, 0, s.servedChan()
	}
	s.calls++
	return s.stayContext(), s.epoch, nil
}

// awaitServed returns a channel that is closed when the shard is served next, or nil if it is served.
func (s *shardSlot) awaitServed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isServed() {
		return nil
	}
	return s.servedChan()
}

// servedChan returns the channel that is closed when the shard is served next. The caller holds s.mu.
func (s *shardSlot) servedChan() <-chan struct{} {
	if s.servedNext == nil {
		s.servedNext = make(chan struct{})
	}
	return s.servedNext
}

// confirmPeriod asks etcd for confirmation if the shard is served and the process was paused a moment ago. It reports
// whether the shard's period is confirmed.
func (s *shardSlot) confirmPeriod(ctx context.Context) bool {
	s.mu.Lock()
	period, serves := s.period, s.phase == phaseServing
	s.mu.Unlock()
	return serves && (period.Valid() || period.AwaitConfirmed(ctx))
}

func (s *shardSlot) leaveCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if s.calls == 0 && s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// servedEpoch reports whether the shard is served at this instant.
func (s *shardSlot) servedEpoch() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isServed() {
		return 0, false
	}
	return s.epoch, true
}

// isServed reports whether the shard is served at this instant. The caller holds s.mu.
func (s *shardSlot) isServed() bool { return s.phase == phaseServing && s.period.Valid() }

// holdsEpoch reports whether the shard is served under that epoch at this instant, or its running calls may still
// end.
func (s *shardSlot) holdsEpoch(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.phase == phaseServing || s.phase == phaseReleasing) && s.epoch == epoch && s.period.Valid()
}

// ownsEpoch reports whether this node still has the shard under that epoch in etcd, including while it is acquired
// or released.
func (s *shardSlot) ownsEpoch(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != phaseFree && s.epoch == epoch && s.period.ValidDespitePause()
}

// ownsEpochNow is like ownsEpoch, but false after a pause of the process that etcd has not confirmed to be harmless.
func (s *shardSlot) ownsEpochNow(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != phaseFree && s.epoch == epoch && s.period.Valid()
}

// isFree reports whether the node has no part in the shard.
func (s *shardSlot) isFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseFree
}

// beginAcquire takes a free shard. With ask, OnAcquire is called before the shard is served; otherwise it is served at
// once.
func (s *shardSlot) beginAcquire(epoch int64, period *etcdsession.Period, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.period, s.releaseNext = epoch, period, false
	if ask {
		s.phase = phaseAcquiring
		s.ownerContext()
		return
	}
	s.setServing()
}

// setServing admits calls. The caller holds s.mu.
func (s *shardSlot) setServing() {
	s.phase = phaseServing
	if s.servedNext != nil {
		close(s.servedNext)
		s.servedNext = nil
	}
}

// finishAcquire ends the acquiring phase, and reports whether the shard must be released at once.
func (s *shardSlot) finishAcquire() (drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.releaseNext {
		s.phase = phaseReleasing
		return true
	}
	s.setServing()
	return false
}

// beginRelease stops admitting calls and ends the stay context. mine reports whether the caller must release the shard;
// drained is closed when its calls have ended, or nil if none runs.
func (s *shardSlot) beginRelease() (mine bool, drained <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case phaseAcquiring:
		if !s.releaseNext {
			s.releaseNext = true
			s.cancelOwnerContext()
		}
		return false, nil // the goroutine that acquires the shard releases it
	case phaseServing:
		s.phase = phaseReleasing
		if s.endStay != nil {
			s.endStay(shard.ErrNotOwner)
		}
		if s.calls > 0 {
			s.drained = make(chan struct{})
			drained = s.drained
		}
		return true, drained
	}
	return false, nil
}

// setFree makes the shard free.
func (s *shardSlot) setFree() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelOwnerContext()
	s.phase, s.epoch, s.period = phaseFree, 0, nil
	s.ctx, s.cancel, s.stay, s.endStay = nil, nil, nil, nil
}

package consensusmanager

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding/ownership"
)

// phase is the state of a shard on this node.
type phase int8

const (
	idle      phase = iota
	acquiring       // OnAcquire runs
	serving
	releasing // waits for what runs in it, then calls OnRelease
)

// slot holds the state of one shard on this node.
type slot struct {
	mu      sync.Mutex
	phase   phase
	dropped bool // while acquiring: release it right after
	epoch   int64
	running int                 // calls that run in it
	period  *etcdsession.Period // validity period in which it was acquired
	drained chan struct{}       // closed when running falls to 0 while releasing; nil if not waited for
	awaited chan struct{}       // closed when the shard is served next; nil if not waited for
	arrival arrival

	ctx    context.Context // the owner's context; made on demand, like stay
	cancel context.CancelCauseFunc

	stay    context.Context // ends as soon as the shard is no longer served
	endStay context.CancelCauseFunc
}

// held returns the epoch under which the shard is held, 0 if it is free, and ownership.Lapsed if it was
// acquired in another period.
func (s *slot) held(period *etcdsession.Period) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != 0 && s.period != period {
		return ownership.Lapsed
	}
	return s.epoch
}

// context returns the owner's context. It ends when the shard is released, and at the session's deadline. The
// caller holds s.mu.
func (s *slot) context() context.Context {
	if s.phase == idle {
		return released
	}
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(s.period.Context())
	}
	return s.ctx
}

// staying returns a context that ends as soon as the shard is no longer served. The caller holds s.mu.
func (s *slot) staying() context.Context {
	if s.phase == idle {
		return released
	}
	if s.stay == nil {
		s.stay, s.endStay = context.WithCancelCause(s.context())
		if s.phase != serving {
			s.endStay(shard.ErrNotOwner)
		}
	}
	return s.stay
}

// released is the context of a shard that is not held.
var released = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(shard.ErrNotOwner)
	return ctx
}()

// end ends the owner's context. The caller holds s.mu.
func (s *slot) end() {
	if s.cancel != nil {
		s.cancel(shard.ErrNotOwner)
	}
}

// close ends the owner's context.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		s.context() // create the context so that later callers find it ended
	}
	s.end()
}

// enter admits a call if the shard is served at this instant.
func (s *slot) enter() (ctx context.Context, epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return nil, 0, false
	}
	s.running++
	return s.context(), s.epoch, true
}

// admit is enter without the owner's context.
func (s *slot) admit() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return 0, false
	}
	s.running++
	return s.epoch, true
}

// readmit is like admit, but also admits calls while the shard is being released, as long as other calls run in
// it.
func (s *slot) readmit() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != serving && s.phase != releasing || s.running == 0 || !s.period.Valid() {
		return 0, false
	}
	s.running++
	return s.epoch, true
}

// join is enter for a function that stays until the shard must be released: the context ends then. If the shard
// is not served, join returns a channel that is closed when it is.
func (s *slot) join() (ctx context.Context, epoch int64, awaited <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return nil, 0, s.served()
	}
	s.running++
	return s.staying(), s.epoch, nil
}

// await returns a channel that is closed when the shard is served next, or nil if it is served.
func (s *slot) await() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open() {
		return nil
	}
	return s.served()
}

// served returns the channel that is closed when the shard is served next. The caller holds s.mu.
func (s *slot) served() <-chan struct{} {
	if s.awaited == nil {
		s.awaited = make(chan struct{})
	}
	return s.awaited
}

// confirm asks etcd for confirmation if the shard is served and the process was paused a moment ago. It reports
// whether the shard's period is confirmed.
func (s *slot) confirm(ctx context.Context) bool {
	s.mu.Lock()
	period, serves := s.period, s.phase == serving
	s.mu.Unlock()
	return serves && (period.Valid() || period.Confirm(ctx))
}

func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.running == 0 && s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// serves reports whether the shard is served at this instant.
func (s *slot) serves() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return 0, false
	}
	return s.epoch, true
}

// open reports whether the shard is served at this instant. The caller holds s.mu.
func (s *slot) open() bool { return s.phase == serving && s.period.Valid() }

// holds reports whether the shard is served under that epoch at this instant, or its running calls may still
// end.
func (s *slot) holds(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.phase == serving || s.phase == releasing) && s.epoch == epoch && s.period.Valid()
}

// stands reports whether this node still has the shard under that epoch in etcd, including while it is acquired
// or released.
func (s *slot) stands(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != idle && s.epoch == epoch && s.period.Stands()
}

// free reports whether the node has no part in the shard.
func (s *slot) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == idle
}

// begin takes a free shard. With ask, OnAcquire is called before the shard is served; otherwise it is served at
// once.
func (s *slot) begin(epoch int64, period *etcdsession.Period, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.period, s.dropped = epoch, period, false
	if ask {
		s.phase = acquiring
		s.context()
		return
	}
	s.serve()
}

// serve admits calls. The caller holds s.mu.
func (s *slot) serve() {
	s.phase = serving
	if s.awaited != nil {
		close(s.awaited)
		s.awaited = nil
	}
}

// acquired ends the acquiring phase, and reports whether the shard must be released at once.
func (s *slot) acquired() (drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		s.phase = releasing
		return true
	}
	s.serve()
	return false
}

// drop stops admitting calls and ends the stay context. mine reports whether the caller must release the shard;
// drained is closed when its calls have ended, or nil if none runs.
func (s *slot) drop() (mine bool, drained <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case acquiring:
		if !s.dropped {
			s.dropped = true
			s.end()
		}
		return false, nil // the goroutine that acquires the shard releases it
	case serving:
		s.phase = releasing
		if s.endStay != nil {
			s.endStay(shard.ErrNotOwner)
		}
		if s.running > 0 {
			s.drained = make(chan struct{})
			drained = s.drained
		}
		return true, drained
	}
	return false, nil
}

// clear makes the shard free.
func (s *slot) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	s.phase, s.epoch, s.period = idle, 0, nil
	s.ctx, s.cancel, s.stay, s.endStay = nil, nil, nil, nil
}

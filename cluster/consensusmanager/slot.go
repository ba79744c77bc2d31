package consensusmanager

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding/ownership"
)

// phase is how far this node has come with a shard.
type phase int8

const (
	idle      phase = iota
	acquiring       // OnAcquire runs
	serving
	releasing // what runs in it is waited for, then OnRelease
)

// slot is one shard on this node.
type slot struct {
	mu      sync.Mutex
	phase   phase
	dropped bool // while acquiring: it is to be released right after
	epoch   int64
	running int                 // calls of Serve in it
	period  *etcdsession.Period // of the session it was acquired on
	drained chan struct{}       // closed when running is 0 while releasing; nil if nobody waits
	awaited chan struct{}       // closed when it is served the next time; nil if nobody waits
	arrival arrival

	ctx    context.Context // the owner's; made when first asked for, as the next one is
	cancel context.CancelCauseFunc

	stay    context.Context // ends as soon as the shard is not served any more
	endStay context.CancelCauseFunc
}

// held is the epoch under which the shard is held, 0 when it is free, and
// ownership.Lapsed if it was acquired in another period.
func (s *slot) held(period *etcdsession.Period) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != 0 && s.period != period {
		return ownership.Lapsed
	}
	return s.epoch
}

// context is the owner's: it ends when the shard is released, and at the session's
// deadline. The lock is held.
func (s *slot) context() context.Context {
	if s.phase == idle {
		return released
	}
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(s.period.Context())
	}
	return s.ctx
}

// staying ends as soon as the shard is not served any more. The lock is held.
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

// end ends the owner's context. The lock is held.
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
		s.context() // a caller that asks for it later finds it ended
	}
	s.end()
}

// enter counts a call in, if the shard is served at this instant.
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

// readmit is admit for what is waited for by what runs in the shard, also while that is waited for.
func (s *slot) readmit() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != serving && s.phase != releasing || s.running == 0 || !s.period.Valid() {
		return 0, false
	}
	s.running++
	return s.epoch, true
}

// join is enter for who stays until the shard is to be released: the context ends then. If
// the shard is not served, it returns what is closed when it is.
func (s *slot) join() (ctx context.Context, epoch int64, awaited <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return nil, 0, s.served()
	}
	s.running++
	return s.staying(), s.epoch, nil
}

// await returns what is closed when the shard is served the next time; nil if it is served.
func (s *slot) await() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open() {
		return nil
	}
	return s.served()
}

// served is closed when the shard is served the next time. The lock is held.
func (s *slot) served() <-chan struct{} {
	if s.awaited == nil {
		s.awaited = make(chan struct{})
	}
	return s.awaited
}

// confirm waits for etcd's confirmation where the shard is served, and the process stood still a moment
// ago. It reports whether there is one by now.
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

// open reports whether the shard is served at this instant. The lock is held.
func (s *slot) open() bool { return s.phase == serving && s.period.Valid() }

// holds reports whether the shard is served at this instant under that epoch, or what runs in it may end.
func (s *slot) holds(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.phase == serving || s.phase == releasing) && s.epoch == epoch && s.period.Valid()
}

// stands reports whether the shard is this node's under that epoch as far as etcd is concerned, also while it is
// acquired or released.
func (s *slot) stands(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != idle && s.epoch == epoch && s.period.Stands()
}

// free reports whether the node has nothing of the shard.
func (s *slot) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == idle
}

// begin takes a free shard. It reports whether the shard is served at once: nobody has
// to be asked.
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

// serve lets calls in. The lock is held.
func (s *slot) serve() {
	s.phase = serving
	if s.awaited != nil {
		close(s.awaited)
		s.awaited = nil
	}
}

// acquired ends acquiring, and reports whether the shard is to be released at once.
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

// drop stops calls from coming in, and notifies those that stay. It reports whether the caller is the one to release
// the shard, and what it has to wait for: nil is nothing.
func (s *slot) drop() (mine bool, drained <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case acquiring:
		if !s.dropped {
			s.dropped = true
			s.end()
		}
		return false, nil // who acquires it releases it
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

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/heartbeat"
)

// node is what others reach of a process, and how it reaches them: it stands for package node's streams.
type node struct {
	p           *process
	watcherLost chan struct{}
	closed      bool      // it listens no more
	watchers    []*stream // those of others that stand
	watching    []*stream // its own that stand
}

// How soon a closed socket is noticed, at least and at most; how long a way takes where nobody is far; and how long
// it takes until one notices that nothing comes through a connection any more.
const (
	leastNotice, mostNotice   = 500 * time.Microsecond, time.Millisecond
	leastHop, mostHop         = 100 * time.Microsecond, 1500 * time.Microsecond
	leastSilence, mostSilence = 10 * time.Second, 15 * time.Second
)

var (
	errBroke   = errors.New("the watch broke")
	errSilence = errors.New("no answer")
)

// stream is a watch: it stands as long as both processes live and the network
// between them does not break it.
type stream struct {
	from, to *process
	opened   time.Duration
	heard    uint64        // heartbeats
	over     bool          // nothing comes through it any more
	ended    chan struct{} // closed when the watcher knows that it has ended
	err      error         // nil: by a goodbye; read after ended
}

// Instance is of crashdetector.Watch.
func (s *stream) Instance() string { return s.to.id }

// Heartbeats is of crashdetector.Watch.
func (s *stream) Heartbeats() bool { return true }

// Heard is of crashdetector.Watch: what has come since the last call has been heard, if anything could come. A process
// that stands still itself does not look.
func (s *stream) Heard() uint64 {
	w := s.from.w
	w.mu.Lock()
	defer w.mu.Unlock()
	here, there := s.from.host, s.to.host
	if here.standsStill() || !s.over && !s.to.dead.Load() && here.reaches(there) && there.reaches(here) {
		s.heard = uint64((w.now() - s.opened) / heartbeat.Every)
	}
	return s.heard
}

// Wait is of crashdetector.Watch.
func (s *stream) Wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close is of crashdetector.Watch.
func (s *stream) Close(ctx context.Context) {
	w := s.from.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.over {
		s.end(ctx.Err() == nil, false, true)
	}
}

// end ends a stream: the one that is watched hears a goodbye, or that it lost a watcher; and so does the watcher,
// unless it is its own doing. With an own goodbye neither is alarmed. The lock is held.
func (s *stream) end(goodbye, silently, byWatcher bool) {
	if s.over {
		return
	}
	s.over = true
	s.to.node.watchers = without(s.to.node.watchers, s)
	s.from.node.watching = without(s.from.node.watching, s)
	w := s.from.w
	notice := w.between(leastNotice, mostNotice) + w.between(0, w.faults.slow)
	if silently {
		notice = w.between(leastSilence, mostSilence)
	}
	if !byWatcher {
		s.from.hear(notice, func() {
			if !goodbye {
				s.err = errBroke
			}
			close(s.ended)
		})
	}
	if !goodbye {
		s.to.hear(notice, func() {
			select {
			case s.to.node.watcherLost <- struct{}{}:
			default:
			}
			w.checks.lostWatcher(s.to)
		})
	}
}

// hear lets a process know of something after d, if it lives then, or as soon as it goes on. The lock is held.
func (p *process) hear(d time.Duration, do func()) {
	p.w.after(d, func() {
		switch {
		case p.dead.Load():
		case p.host.standsStill():
			resumed := p.host.resumed
			p.w.wg.Go(func() {
				select {
				case <-resumed:
					p.hear(0, do)
				case <-p.ctx.Done():
				}
			})
		default:
			do()
		}
	})
}

// reaches reports whether what one host sends to another comes to somebody who could answer.
func (h *host) reaches(there *host) bool {
	return !h.silent && !there.silent && !there.standsStill() && !h.cut[there] && !there.cut[h]
}

// dial calls answered within d with who listens at an address, nil if nobody does; or never if there is no answer.
func (n *node) dial(address string, answered func(there *process)) {
	p, there := n.p, n.p.w.host(address)
	hop := p.w.between(leastHop, mostHop) + p.w.between(0, p.w.faults.slow) + p.host.lag() + there.lag()
	p.w.after(hop, func() {
		target := there.process
		switch {
		case !p.host.reaches(there):
		case there.refuses || target == nil || target.node.closed:
			p.w.alter(func() { there.refused = p.w.now() })
			p.hear(p.w.between(leastNotice, mostNotice), func() { answered(nil) })
		default:
			p.hear(p.w.between(leastNotice, mostNotice), func() { answered(target) })
		}
	})
}

// await is dial for who waits.
func await[T any](n *node, ctx context.Context, address string, use func(there *process) T) (none T, err error) {
	answers := make(chan *T, 1)
	n.p.w.mu.Lock()
	n.dial(address, func(there *process) {
		if there == nil {
			answers <- nil
			return
		}
		if ctx.Err() != nil {
			return
		}
		got := use(there)
		answers <- &got
	})
	n.p.w.mu.Unlock()
	select {
	case got := <-answers:
		if got == nil {
			return none, crash.ErrRefused
		}
		return *got, nil
	case <-ctx.Done():
		return none, errSilence
	}
}

// Watch is of crashdetector.Dialer.
func (n *node) Watch(ctx context.Context, address string) (crash.Watch, error) {
	s, err := await(n, ctx, address, func(there *process) *stream {
		s := &stream{from: n.p, to: there, opened: n.p.w.now(), ended: make(chan struct{})}
		if there.dead.Load() || there.node.closed {
			s.over, s.err = true, errBroke
			close(s.ended)
			return s
		}
		there.node.watchers = append(there.node.watchers, s)
		n.watching = append(n.watching, s)
		return s
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// identify is who answers at an address.
func (n *node) identify(ctx context.Context, address string) (string, error) {
	return await(n, ctx, address, func(there *process) string { return there.id })
}

// close ends the streams, with a goodbye or without, and listens no more. The lock is held.
func (n *node) close(goodbye bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watchers) {
		s.end(goodbye, false, false)
	}
}

// die is what happens to the streams of a process that died: its kernel closes
// them, or the host is gone and nobody hears of it for long.
func (n *node) die(withHost bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watching) {
		s.end(false, withHost, true)
	}
	for _, s := range slices.Clone(n.watchers) {
		s.end(false, withHost, false)
	}
}

// watches reports whether a stream stands to the process that is at an address now.
func (n *node) watches(there *process) bool {
	return slices.ContainsFunc(n.watching, func(s *stream) bool { return s.to == there })
}

func without[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(x T) bool { return x == v })
}

// lag is by how much a busy host keeps what reaches it waiting.
func (h *host) lag() time.Duration {
	return h.w.between(0, h.link().busy)
}

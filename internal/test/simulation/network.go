package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/heartbeat"
)

// node is the network side of a process: its connections from and to others. It replaces package node's
// streams.
type node struct {
	p           *process
	watcherLost chan struct{}
	closed      bool      // it does not listen any more
	watchers    []*stream // open streams from others
	watching    []*stream // its own open streams
}

// Bounds on the time until a closed socket is noticed; on the duration of one way between nodes at no distance;
// and on the time until a silent connection is noticed.
const (
	leastNotice, mostNotice   = 500 * time.Microsecond, time.Millisecond
	leastHop, mostHop         = 100 * time.Microsecond, 1500 * time.Microsecond
	leastSilence, mostSilence = 10 * time.Second, 15 * time.Second
)

var (
	errBroke   = errors.New("the watch broke")
	errSilence = errors.New("no answer")
)

// stream is a watch. It stays open while both processes live and the network between them does not break it.
type stream struct {
	from, to *process
	opened   time.Duration
	heard    uint64        // heartbeats
	over     bool          // it carries nothing any more
	ended    chan struct{} // closed when the watcher learns of the end
	err      error         // nil after a goodbye; read after ended
}

// Instance implements crash.Watch.
func (s *stream) Instance() string { return s.to.id }

// Heartbeats implements crash.Watch.
func (s *stream) Heartbeats() bool { return true }

// Heard implements crash.Watch. Heartbeats since the last call count as heard if they could arrive, or if the
// watcher itself stands still.
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

// Wait implements crash.Watch.
func (s *stream) Wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements crash.Watch.
func (s *stream) Close(ctx context.Context) {
	w := s.from.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.over {
		s.end(ctx.Err() == nil, false, true)
	}
}

// end ends a stream. After a goodbye neither side suspects a crash. Otherwise the watched process learns that
// it lost a watcher, and the watcher that the stream broke. A watcher that ended the stream itself is not
// notified. The caller holds w.mu.
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

// hear calls do at a process after d if the process lives then. If it stands still, do is called when it
// continues. The caller holds w.mu.
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

// reaches reports whether a message of one host arrives at a host that could answer it.
func (h *host) reaches(there *host) bool {
	return !h.silent && !there.silent && !there.standsStill() && !h.cut[there] && !there.cut[h]
}

// dial calls answered, after the delays of the network, with the process that listens at an address, or with
// nil if none does. If the address gives no answer, answered is never called.
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

// await is dial for callers that wait for the answer.
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

// Watch implements crash.Dialer.
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

// identify returns the instance id of the process at an address.
func (n *node) identify(ctx context.Context, address string) (string, error) {
	return await(n, ctx, address, func(there *process) string { return there.id })
}

// close ends the streams, with or without a goodbye, and stops listening. The caller holds w.mu.
func (n *node) close(goodbye bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watchers) {
		s.end(goodbye, false, false)
	}
}

// die ends the streams of a process that died. Its kernel closes them, unless the host is gone; the others then
// notice only after a long silence.
func (n *node) die(withHost bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watching) {
		s.end(false, withHost, true)
	}
	for _, s := range slices.Clone(n.watchers) {
		s.end(false, withHost, false)
	}
}

// watches reports whether a stream is open to the process that is at an address now.
func (n *node) watches(there *process) bool {
	return slices.ContainsFunc(n.watching, func(s *stream) bool { return s.to == there })
}

func without[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(x T) bool { return x == v })
}

// lag draws the delay of messages that arrive at a busy host.
func (h *host) lag() time.Duration {
	return h.w.between(0, h.link().busy)
}

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/wait"
)

// nodeNetwork is the network side of a process: its connections from and to others. It replaces package node's
// streams.
type nodeNetwork struct {
	p           *process
	watcherLost wait.Signal
	closed      bool           // it does not listen any more
	watchers    []*watchStream // open streams from others
	watching    []*watchStream // its own open streams
}

// Bounds on the time until a closed socket is noticed; on the duration of one way between nodes at no distance;
// and on the time until a silent connection is noticed.
const (
	minNotice, maxNotice   = 500 * time.Microsecond, time.Millisecond
	minHop, maxHop         = 100 * time.Microsecond, 1500 * time.Microsecond
	minSilence, maxSilence = 10 * time.Second, 15 * time.Second
)

var (
	errWatchBroken = errors.New("the watch broke")
	errSilence     = errors.New("no answer")
)

// watchStream is a watch. It stays open while both processes live and the network between them does not break it.
type watchStream struct {
	from, to *process
	opened   time.Duration
	heard    uint64        // heartbeats
	over     bool          // it carries nothing any more
	ended    chan struct{} // closed when the watcher learns of the end
	err      error         // nil after a goodbye; read after ended
}

// Instance implements crash.Watch.
func (s *watchStream) Instance() string { return s.to.id }

// Heartbeats implements crash.Watch.
func (s *watchStream) Heartbeats() bool { return true }

// Heard implements crash.Watch. Heartbeats since the last call count as heard if they could arrive, or if the
// watcher itself stands still.
func (s *watchStream) Heard() uint64 {
	w := s.from.w
	w.Mu.Lock()
	defer w.Mu.Unlock()
	here, there := s.from.host, s.to.host
	if here.standsStill() || !s.over && !s.to.dead.Load() && here.reaches(there) && there.reaches(here) {
		s.heard = uint64((w.Now() - s.opened) / heartbeat.SendEvery)
	}
	return s.heard
}

// Wait implements crash.Watch.
func (s *watchStream) Wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements crash.Watch.
func (s *watchStream) Close(ctx context.Context) {
	w := s.from.w
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if !s.over {
		s.endStream(ctx.Err() == nil, false, true)
	}
}

// endStream ends a stream. After a goodbye neither side suspects a crash. Otherwise the watched process learns that
// it lost a watcher, and the watcher that the stream broke. A watcher that ended the stream itself is not
// notified. The caller holds w.Mu.
func (s *watchStream) endStream(goodbye, silently, byWatcher bool) {
	if s.over {
		return
	}
	s.over = true
	s.to.node.watchers = removeValue(s.to.node.watchers, s)
	s.from.node.watching = removeValue(s.from.node.watching, s)
	w := s.from.w
	notice := w.Between(minNotice, maxNotice) + w.Between(0, w.faults.slow)
	if silently {
		notice = w.Between(minSilence, maxSilence)
	}
	if !byWatcher {
		s.from.deliverAfter(notice, func() {
			if !goodbye {
				s.err = errWatchBroken
			}
			close(s.ended)
		})
	}
	if !goodbye {
		s.to.deliverAfter(notice, func() {
			s.to.node.watcherLost.Send()
			w.checks.recordLostWatcher(s.to)
		})
	}
}

// deliverAfter calls do at a process after d if the process lives then. If it stands still, do is called when it
// continues. The caller holds w.Mu.
func (p *process) deliverAfter(d time.Duration, do func()) {
	p.w.After(d, func() {
		switch {
		case p.dead.Load():
		case p.host.standsStill():
			resumed := p.host.resumed
			p.w.wg.Go(func() {
				select {
				case <-resumed:
					p.deliverAfter(0, do)
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

// dialProcess calls answered, after the delays of the network, with the process that listens at an address, or with
// nil if none does. If the address gives no answer, answered is never called.
func (n *nodeNetwork) dialProcess(address string, answered func(there *process)) {
	p, there := n.p, n.p.w.hostAt(address)
	hop := p.w.Between(minHop, maxHop) + p.w.Between(0, p.w.faults.slow) + p.host.drawLag() + there.drawLag()
	p.w.After(hop, func() {
		target := there.process
		switch {
		case !p.host.reaches(there):
		case there.refuses || target == nil || target.node.closed:
			p.w.alter(func() { there.refused = p.w.Now() })
			p.deliverAfter(p.w.Between(minNotice, maxNotice), func() { answered(nil) })
		default:
			p.deliverAfter(p.w.Between(minNotice, maxNotice), func() { answered(target) })
		}
	})
}

// dialAndUse is dialProcess for callers that wait for the answer.
func dialAndUse[T any](n *nodeNetwork, ctx context.Context, address string, use func(there *process) T) (none T,
	err error) {
	answers := make(chan *T, 1)
	n.p.w.Mu.Lock()
	n.dialProcess(address, func(there *process) {
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
	n.p.w.Mu.Unlock()
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
func (n *nodeNetwork) Watch(ctx context.Context, address string) (crash.Watch, error) {
	s, err := dialAndUse(n, ctx, address, func(there *process) *watchStream {
		s := &watchStream{from: n.p, to: there, opened: n.p.w.Now(), ended: make(chan struct{})}
		if there.dead.Load() || there.node.closed {
			s.over, s.err = true, errWatchBroken
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
func (n *nodeNetwork) identify(ctx context.Context, address string) (string, error) {
	return dialAndUse(n, ctx, address, func(there *process) string { return there.id })
}

// closeStreams ends the streams, with or without a goodbye, and stops listening. The caller holds w.Mu.
func (n *nodeNetwork) closeStreams(goodbye bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watchers) {
		s.endStream(goodbye, false, false)
	}
}

// breakStreams ends the streams of a process that died. Its kernel closes them, unless the host is gone; the others
// then notice only after a long silence.
func (n *nodeNetwork) breakStreams(withHost bool) {
	n.closed = true
	for _, s := range slices.Clone(n.watching) {
		s.endStream(false, withHost, true)
	}
	for _, s := range slices.Clone(n.watchers) {
		s.endStream(false, withHost, false)
	}
}

// watchesProcess reports whether a stream is open to the process that is at an address now.
func (n *nodeNetwork) watchesProcess(there *process) bool {
	return slices.ContainsFunc(n.watching, func(s *watchStream) bool { return s.to == there })
}

func removeValue[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(x T) bool { return x == v })
}

// drawLag draws the delay of messages that arrive at a busy host.
func (h *host) drawLag() time.Duration {
	return h.w.Between(0, h.link.State().Busy)
}

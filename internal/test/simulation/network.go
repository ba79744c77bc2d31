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
	closed      bool                // it does not listen any more
	served      uint64              // number of streams from others so far
	newest      map[*process]uint64 // by watcher: its newest stream that arms it; older ones arm it no more
	watchers    []*watchStream      // open streams from others
	watching    []*watchStream      // its own open streams
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
	return !there.standsStill() && h.sends(there) && there.sends(h)
}

// sends reports whether the network carries messages of one host to another. The answers may be lost.
func (h *host) sends(there *host) bool { return !h.silent && !there.silent && !h.cut[there] }

// drawHop draws the duration of a way from one host to another.
func (h *host) drawHop(there *host) time.Duration {
	return h.w.Between(minHop, maxHop) + h.w.Between(0, h.w.faults.slow) + h.drawLag() + there.drawLag()
}

// dialProcess calls accepted, after the delays of the network, when the process that listens at an address gets the
// connection, or refused when the caller learns that none listens. If the address gives no answer, it calls neither.
func (n *nodeNetwork) dialProcess(address string, accepted func(there *process), refused func()) {
	p, there := n.p, n.p.w.hostAt(address)
	p.w.After(p.host.drawHop(there), func() {
		target := there.process
		switch {
		case !p.host.reaches(there):
		case there.refuses || target == nil || target.node.closed:
			p.w.alter(func() { there.refused = p.w.Now() })
			p.deliverAfter(p.w.Between(minNotice, maxNotice), refused)
		default:
			accepted(target)
		}
	})
}

// Watch implements crash.Dialer.
func (n *nodeNetwork) Watch(ctx context.Context, address, instance string, heard func(heartbeat.Beat) bool) (
	crash.Watch, error) {
	w, answers := n.p.w, make(chan *watchStream, 1)
	var s *watchStream // guarded by w.Mu
	w.Mu.Lock()
	n.dialProcess(address, func(there *process) {
		if ctx.Err() == nil {
			s = n.openStream(there, instance, heard, func() { answers <- s })
		}
	}, func() { answers <- nil })
	w.Mu.Unlock()
	select {
	case s := <-answers:
		switch {
		case s == nil:
			return nil, crash.ErrRefused
		case s.isOther():
			w.Mu.Lock()
			defer w.Mu.Unlock()
			s.endStream(false, false, true)
			return nil, crash.ErrOtherInstance
		}
		return s, nil
	case <-ctx.Done():
		w.Mu.Lock()
		defer w.Mu.Unlock()
		switch {
		case s != nil && s.isOpen && !s.isOther():
			return s, nil // the watched process has the proof, or will have it
		case s != nil: // the answer is late, and the watched process learns that the watcher has given up
			s.endStream(false, false, true)
		}
		return nil, errSilence
	}
}

// identify returns the instance id of the process at an address.
func (n *nodeNetwork) identify(ctx context.Context, address string) (string, error) {
	answers := make(chan string, 1)
	n.p.w.Mu.Lock()
	n.dialProcess(address, func(there *process) {
		n.p.deliverAfter(n.p.w.Between(minNotice, maxNotice), func() { answers <- there.id })
	}, func() { answers <- "" })
	n.p.w.Mu.Unlock()
	select {
	case id := <-answers:
		if id == "" {
			return "", crash.ErrRefused
		}
		return id, nil
	case <-ctx.Done():
		return "", errSilence
	}
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
	return slices.ContainsFunc(n.watching, func(s *watchStream) bool { return s.to == there && s.isOpen })
}

func removeValue[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(s), func(x T) bool { return x == v })
}

// drawLag draws the delay of messages that arrive at a busy host.
func (h *host) drawLag() time.Duration {
	return h.w.Between(0, h.link.State().Busy)
}

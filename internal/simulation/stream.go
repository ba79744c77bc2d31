package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/suspicion"
)

// stream is a node.Watch: it stands as long as both processes live and the network
// between them does not break it.
type stream struct {
	from  *watched
	to    *process
	ended bool
}

// end ends a stream: the watcher hears a goodbye or that it broke, and so does the one
// that is watched, unless it was its own doing; or neither hears anything.
func (s *stream) end(e suspicion.Event, byWatcher, silently bool) {
	if s.ended {
		return
	}
	s.ended = true
	s.to.detector.watchers = drop(s.to.detector.watchers, s)
	if silently {
		return
	}
	if w := s.from; !byWatcher && w.stream == s {
		w.later(noticed, func() {
			if w.stream == s {
				w.stream = nil
				w.broke(e)
			}
		})
	}
	if p := s.to; e == suspicion.Broke && !p.dead {
		p.w.queue.push(event{at: p.w.now + p.w.between(0, noticed), p: p, do: p.detector.watcherLost})
	}
}

// dial opens a stream to the one that is at an address, and tells within 2 s what came of it:
// a stream, that nobody listens there, or neither.
func (w *watched) dial(then func(s *stream, refused bool)) {
	p := w.d.p
	there := p.w.host(w.address)
	p.w.after(p.host.hop(), func() {
		target := there.process
		unreachable := p.host.silent || there.silent || there.suspended >= 0 || target != nil && target.paused
		switch {
		case unreachable:
			w.later(dialTimeout, func() { then(nil, false) })
		case there.refuses || target == nil || target.leaving.closed:
			there.refused = p.w.now
			w.later(noticed, func() { then(nil, true) })
		default:
			s := &stream{from: w, to: target}
			target.detector.watchers = append(target.detector.watchers, s)
			w.later(noticed, func() { then(s, false) })
		}
	})
}

// later lets the process know of something within d.
func (w *watched) later(d time.Duration, do func()) {
	p := w.d.p
	p.w.queue.push(event{at: p.w.now + p.w.between(d/2, d), p: p, do: do})
}

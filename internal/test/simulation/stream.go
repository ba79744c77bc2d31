package simulation

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/crash/heartbeat"
)

// watchStream is a watch. It stays open while both processes live and the network between them does not break it. Its
// fields are guarded by w.Mu.
//
//	watcher (from)                          watched process (to)
//	   │ ◄────────── opened ──────────────────── │ accepts it, and numbers it
//	   │ ─────────── proof of its identity ────► │ from now on it notices the watcher's loss, and arms it
//	   │ ◄────────── heartbeats that arm ─────── │
//	   │ ─────────── acknowledgements ─────────► │
//	   │ ─────────── reports of removals ──────► │
//	   │ ─────────── goodbye ──────────────────► │
//	   │ ◄────────── goodbye confirmed ───────── │
type watchStream struct {
	from, to *process
	number   uint64 // among those that the watched process serves
	opened   time.Duration

	toWatched, toWatcher       *lane
	watcherCalls, watchedCalls callQueue

	wanted      string                    // instance that the watcher wants to watch; "" for any
	heard       func(heartbeat.Beat) bool // nil if the watcher acknowledges nothing
	heardNumber uint64                    // empty heartbeats
	isOpen      bool                      // the watcher knows that it is open
	proved      bool                      // the watched process knows that the watcher is a member
	unheard     int                       // heartbeats sent since the watched process last heard of the watcher
	goodbye     bool                      // the watcher has said goodbye
	goodbyeAt   time.Duration             // when it did
	parted      bool                      // the watched process expects nothing more of the watcher
	timedOut    bool                      // it is over because nothing arrived for long
	over        bool                      // nothing is sent any more
	ended       chan struct{}             // closed when the watcher learns of the end
	confirmed   chan struct{}             // closed when the watcher learns that its goodbye was received
	err         error                     // nil after a goodbye of the watched process; read after ended
	opens       func()                    // called when the watcher learns that it is open
}

// openStream makes a process accept a stream. It calls opens when this process learns that it is open.
func (n *nodeNetwork) openStream(there *process, wanted string, heard func(heartbeat.Beat) bool,
	opens func()) *watchStream {
	if n.p.host.roles.old {
		heard = nil
	}
	there.node.served++
	s := &watchStream{from: n.p, to: there, number: there.node.served, opened: n.p.w.Now(), wanted: wanted, heard: heard,
		opens: opens, toWatched: newLane(n.p, there), toWatcher: newLane(there, n.p), watcherCalls: callQueue{w: n.p.w},
		watchedCalls: callQueue{w: n.p.w}, ended: make(chan struct{}), confirmed: make(chan struct{})}
	there.node.watchers = append(there.node.watchers, s)
	n.watching = append(n.watching, s)
	s.toWatcher.send(s.onOpened)
	return s
}

// onOpened is called when the watcher learns that the stream is open.
func (s *watchStream) onOpened() {
	if s.isOpen {
		return
	}
	s.isOpen = true
	s.opens()
	if s.over || s.isOther() {
		return
	}
	s.toWatched.send(func() {
		s.proved = true
		s.nextBeat()
	})
}

// isOther reports whether another process answered than the wanted one.
func (s *watchStream) isOther() bool { return s.wanted != "" && s.wanted != s.to.id }

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
	if here.standsStill() || !s.over && !s.to.dead.Load() && there.sends(here) && !there.standsStill() {
		s.heardNumber = uint64((w.Now() - s.opened) / heartbeat.SendEvery)
	}
	return s.heardNumber
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
func (s *watchStream) Close(ctx context.Context) (received bool) {
	w := s.from.w
	w.Mu.Lock()
	if live := !s.over && ctx.Err() == nil; live {
		s.sayGoodbye()
		w.Mu.Unlock()
		select {
		case <-s.confirmed:
		case <-s.ended:
		case <-ctx.Done():
		}
		w.Mu.Lock()
	}
	defer w.Mu.Unlock()
	s.endStream(false, false, true)
	select {
	case <-s.confirmed:
		return true
	default:
		return false
	}
}

// ReportRemoval implements crash.Watch. The report leaves when the watcher runs.
func (s *watchStream) ReportRemoval(revision int64) {
	w := s.from.w
	w.Mu.Lock()
	defer w.Mu.Unlock()
	s.sendReport(revision)
}

// sendReport sends a report. The caller holds w.Mu.
func (s *watchStream) sendReport(revision int64) {
	if s.from.host.standsStill() {
		s.from.deliverAfter(0, func() { s.sendReport(revision) })
		return
	}
	if s.over || s.goodbye || s.to.armer == nil {
		return
	}
	s.toWatched.send(func() {
		s.from.w.Counts.Count(RemovalReported)
		s.watchedCalls.add(func() { s.to.armer.RemovalReported(revision) })
	})
}

// sayGoodbye sends the watcher's goodbye behind its acknowledgements, when it runs. Without a cut or a loss the watched
// process then does not suspect that it lost a watcher.
func (s *watchStream) sayGoodbye() {
	if s.from.host.standsStill() {
		s.from.deliverAfter(0, s.sayGoodbye)
		return
	}
	if s.over || s.goodbye {
		return
	}
	s.goodbye, s.goodbyeAt = true, s.from.w.Now()
	s.toWatched.send(func() {
		s.parted = true
		s.watchedCalls.add(func() {
			if s.arms() {
				s.to.armer.SaidGoodbye(s.number)
			}
			s.from.w.Mu.Lock()
			defer s.from.w.Mu.Unlock()
			s.toWatcher.send(func() { close(s.confirmed) })
		})
	})
}

// endStream ends a stream. After a goodbye neither side suspects a crash. Otherwise the watched process learns that
// it lost a watcher, and the watcher that the stream broke. A watcher that ended the stream itself is not
// notified. Some of the messages that are under way still arrive. The caller holds w.Mu.
func (s *watchStream) endStream(goodbye, silently, byWatcher bool) {
	if s.over {
		return
	}
	s.over = true
	s.to.node.watchers = removeValue(s.to.node.watchers, s)
	s.from.node.watching = removeValue(s.from.node.watching, s)
	w := s.from.w
	if w.OneIn(2) {
		s.toWatched.close()
	}
	if w.OneIn(2) {
		s.toWatcher.close()
	}
	if !byWatcher {
		s.from.deliverAfter(s.drawNotice(s.to, s.from, silently), func() {
			if !goodbye {
				s.err = errWatchBroken
			}
			s.toWatcher.close()
			s.onOpened()
			close(s.ended)
		})
	} else { // a heartbeat that was read just before is still passed on
		s.from.deliverAfter(w.Between(0, maxResend), s.toWatcher.close)
	}
	if goodbye {
		s.parted = true
	}
	s.to.deliverAfter(s.drawNotice(s.from, s.to, silently), func() {
		s.toWatched.close()
		if s.parted {
			return
		}
		if s.parted = true; s.proved {
			s.to.node.watcherLost.Send()
			w.checks.recordLostWatcher(s.to)
		}
	})
}

// drawNotice draws the time until a process learns that the other one, or the network, has ended the stream.
func (s *watchStream) drawNotice(by, learns *process, silently bool) time.Duration {
	w := s.from.w
	if silently || !s.timedOut && !by.host.sends(learns.host) {
		return w.Between(minSilence, maxSilence)
	}
	return w.Between(minNotice, maxNotice) + w.Between(0, w.faults.slow)
}

package simulation

import (
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/member"
)

// assembleArmer sets what arms the watchers of the process's member, unless its version knows nothing of that.
func (p *process) assembleArmer(m *member.Member) {
	if armer, ok := any(m.Detector).(heartbeat.Armer); ok && !p.host.roles.old {
		p.armer = armer
	}
}

// callQueue runs the calls of one goroutine of a process, in order and without w.Mu, at the instant at which they are
// added. It is guarded by w.Mu.
type callQueue struct {
	w       *world
	waiting []func()
	runs    bool
}

func (q *callQueue) add(call func()) {
	if q.w.Over {
		return
	}
	if q.waiting = append(q.waiting, call); q.runs {
		return
	}
	q.runs = true
	q.w.wg.Go(func() {
		for q.runNext() {
		}
	})
}

// runNext runs the next call. It returns false if there is none.
func (q *callQueue) runNext() bool {
	q.w.Mu.Lock()
	if len(q.waiting) == 0 {
		q.runs = false
		q.w.Mu.Unlock()
		return false
	}
	call := q.waiting[0]
	q.waiting = q.waiting[1:]
	q.w.Mu.Unlock()
	call()
	return true
}

// maxUnheard limits the heartbeats sent to a watcher of which nothing is heard, as the server does.
const maxUnheard = 20

// arms reports whether the watched process sends heartbeats that arm the watcher.
func (s *watchStream) arms() bool { return s.to.armer != nil && s.heard != nil }

// nextBeat makes the watched process send its next heartbeat, and so on at the pace of its member, until it knows that
// the stream has ended. The process runs.
func (s *watchStream) nextBeat() {
	if !s.arms() || s.parted || s.number < s.to.node.newest[s.from] {
		return
	}
	here, there := s.from.host, s.to.host
	if here.sends(there) && !here.standsStill() && len(s.toWatched.underway) == 0 {
		s.unheard = 0 // the watcher sends heartbeats too
	}
	if s.unheard >= maxUnheard {
		s.to.deliverAfter(heartbeat.SendEvery, s.nextBeat)
		return
	}
	s.to.node.newest[s.from] = s.number
	s.watchedCalls.add(func() {
		b, next := s.to.armer.NextBeat(s.number, s.from.id)
		w := s.from.w
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if next <= 0 {
			next = heartbeat.SendEvery
		}
		if b.Arms() && !s.over {
			s.unheard++
			s.toWatcher.send(func() { s.passOn(b) })
		}
		s.to.deliverAfter(next+there.drawLag(), s.nextBeat)
	})
}

// passOn passes a heartbeat on to the watcher, which runs, and returns the acknowledgement if it is one to acknowledge.
func (s *watchStream) passOn(b heartbeat.Beat) {
	s.watcherCalls.add(func() {
		if !s.heard(b) {
			return
		}
		w := s.from.w
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.checks.recordReceipt(s)
		if s.over || s.goodbye {
			return
		}
		s.toWatched.send(func() {
			s.unheard = 0
			s.watchedCalls.add(func() { s.to.armer.Acknowledged(s.number, b.Number) })
		})
	})
}

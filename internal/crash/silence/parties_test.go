package silence

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// member is the watched member.
type member struct {
	proc
	link        link
	incarnation int64
	proofs      deadline.Proofs
	number      uint64
	streams     uint64
	lag         time.Duration // of its mirror
	reads       int           // in progress
	seen        int           // index of the newest snapshot of its mirror
}

// stream is a stream of a watcher to the member.
type stream struct {
	w        *watcher
	arming   uint64
	watcher  int64 // the incarnation that it arms; 0 before
	up, down path  // to the member, to the watcher
	broken   bool
	released bool // the watcher has said goodbye
	left     bool // the watcher has another case since
	sent     map[uint64]deadline.Instant
	heard    uint64
}

// claims reports whether the member claims at this instant, as far as proofs decide.
func (m *member) claims() bool { return !m.dead && m.proofs.Valid(m.instant()) }

func (m *member) times() deadline.ProofTimes { return m.proofs.Times() }

// join registers the member and begins its loops.
func (m *member) join() {
	m.incarnation = m.w.etcd.member
	m.proofs = deadline.NewProofs(deadline.ProofTimesOf(m.w.timeout))
	m.every(50*time.Millisecond, m.look)
	m.every(m.times().ReadEvery(), func() {
		if m.proofs.UntilRead(m.instant(), time.Hour) <= 0 {
			m.read()
		}
	})
}

// look reads the clock and the mirror.
func (m *member) look() {
	now := m.instant()
	if p := m.proofs.At(now); p.Lapsed() && !m.proofs.Lapsed() {
		m.w.happens["lapses"]++
		m.w.note("its proofs lapse")
		m.proofs = p
	}
	history := m.w.etcd.history
	for m.seen+1 < len(history) && m.w.rand.Float64() < 0.9 && !m.link.blocked && m.w.now >= m.lag {
		m.seen++
	}
	s := history[m.seen]
	if m.w.oneIn(10) { // a goroutine looks at one that it has taken before
		s = history[max(0, m.seen-m.w.rand.IntN(3))]
	}
	if s.member != m.incarnation {
		return // it is no member there
	}
	m.proofs = m.proofs.OnMembers(s.revision, func(watcher int64) bool {
		return slices.Contains(s.watchers, watcher)
	}, now)
}

// beat sends a heartbeat on a stream, and arms the watcher first.
func (m *member) beat(s *stream) {
	watcher := m.w.etcd.history[m.seen].watchers[s.w.index]
	if watcher == 0 || s.broken || s.released {
		return
	}
	now := m.instant()
	if s.watcher != watcher {
		s.watcher, s.sent, s.heard = watcher, map[uint64]deadline.Instant{}, 0
		m.proofs = m.proofs.Arm(watcher, s.arming, now)
		m.w.note("it arms %s (%d) by %d", s.w.name, watcher, s.arming)
	}
	m.number++
	number := m.number
	s.sent[number] = now
	b := heartbeat.Beat{Number: number, Arming: s.arming, Watched: m.incarnation, Watcher: watcher, Times: m.times(),
		Heard: s.heard}
	s.down.send(func() {
		if !s.broken {
			s.w.happen(func() { s.w.hear(s, b) })
		}
	})
}

func (m *member) acknowledged(s *stream, number uint64, watcher int64) {
	if sent, ok := s.sent[number]; ok && watcher == s.watcher {
		s.heard = max(s.heard, number)
		m.proofs = m.proofs.OnAcknowledged(watcher, sent, m.instant())
	}
}

// read sends a proof read, and refutes what it finds.
func (m *member) read() {
	if m.reads >= 4 {
		return
	}
	m.reads++
	sent := m.instant()
	etcd := m.w.etcd
	m.link.request(m.times().Read, func() func() {
		stands, accused := etcd.member == m.incarnation, len(etcd.accusations)
		return func() {
			m.reads--
			switch {
			case !stands:
				m.dead = true // its session is lost; it registers as another incarnation, which this schedule leaves out
			case accused > 0:
				m.refute()
			default:
				m.proofs = m.proofs.OnRead(sent, m.instant())
			}
		}
	}, func() { m.reads-- })
}

func (m *member) refute() {
	sent, etcd := m.instant(), m.w.etcd
	m.w.happens["refutations"]++
	m.link.request(m.times().Read, func() func() {
		stands := etcd.member == m.incarnation
		if stands {
			clear(etcd.accusations)
			etcd.revision++
			m.w.note("its refutation is executed")
		}
		return func() {
			if stands {
				m.proofs = m.proofs.OnRead(sent, m.instant())
			} else {
				m.dead = true
			}
		}
	}, func() {})
}

// watcher watches the member.
type watcher struct {
	proc
	index       int
	link        link
	incarnation int64
	judge       Judge
	busy        bool
	stream      *stream
	leaves      bool // it is to say goodbye
}

// open opens a stream to the member.
func (x *watcher) open() {
	m := x.w.member
	m.streams++
	s := &stream{w: x, arming: m.streams, up: path{w: x.w}, down: path{w: x.w}}
	x.stream = s
	if x.judge.released {
		x.judge = Judge{} // another case
	}
	var beats func()
	beats = func() {
		m.beat(s)
		if !s.broken && !s.released {
			m.w.after(time.Duration(float64(m.times().HeartbeatEvery())/m.rate), func() { m.happen(beats) })
		}
	}
	m.happen(beats)
}

// hear is called with each heartbeat.
func (x *watcher) hear(s *stream, b heartbeat.Beat) {
	if s.left || b.Watched != x.w.member.incarnation || b.Watcher != x.incarnation {
		return
	}
	acknowledge := false
	x.judge, acknowledge = x.judge.OnBeat(x.clock(), b)
	if acknowledge {
		s.up.send(func() {
			if !s.broken {
				x.w.member.happen(func() { x.w.member.acknowledged(s, b.Number, b.Watcher) })
			}
		})
	}
	x.act()
}

func (x *watcher) checkClock() {
	x.judge = x.judge.OnCheck(x.clock())
	x.act()
	if x.leaves {
		x.judge = x.judge.OnGiveUp()
		x.act()
		if !x.busy && x.judge.CanRelease() {
			x.sayGoodbye()
		}
	}
}

// sayGoodbye releases the arming of the stream, and opens another one later.
func (x *watcher) sayGoodbye() {
	x.leaves = false
	x.judge = x.judge.OnRelease()
	s := x.stream
	x.w.note("%s says goodbye on %d", x.name, s.arming)
	x.w.happens["goodbyes"]++
	s.up.send(func() {
		if s.broken {
			return
		}
		m := x.w.member
		m.happen(func() {
			s.released = true
			m.proofs = m.proofs.OnRelease(s.arming, m.instant())
		})
	})
	x.w.after(x.w.between(0, x.w.timeout), func() {
		x.happen(func() {
			s.left = true
			x.open()
		})
	})
}

// act carries out one request at a time.
func (x *watcher) act() {
	if p := x.judge.Phase(); x.busy || p != Accusing && p != Removing && p != Withdrawing {
		return
	}
	if x.link.blocked && x.w.oneIn(2) { // its session is no longer valid
		x.judge = x.judge.OnGiveUp()
		if x.judge.Phase() != Withdrawing {
			return
		}
	}
	x.busy = true
	etcd, m, self := x.w.etcd, x.w.member, x.incarnation
	attempt := max(250*time.Millisecond, 5*2*x.w.hurdle)
	done := func(update func(Judge) Judge) func() {
		return func() {
			x.busy = false
			if x.incarnation == self {
				x.judge = update(x.judge)
			}
			x.act()
		}
	}
	unknown := func() { x.w.after(20*time.Millisecond, func() { x.happen(done(func(j Judge) Judge { return j })) }) }
	guard := func() (ok, gone bool) {
		gone = etcd.member != m.incarnation
		return !gone && etcd.watchers[x.index] == self, gone
	}
	switch phase, stands := x.judge.Phase(), x.judge.Revision(); phase {
	case Accusing:
		x.link.request(attempt, func() func() {
			ok, gone := guard()
			revision := etcd.accusations[x.index]
			if ok {
				etcd.revision++
				if revision == 0 { // no copy of it stands
					revision = etcd.revision
					etcd.accusations[x.index] = revision
				}
				x.w.happens["accusations"]++
				x.w.note("%s: its accusation is executed", x.name)
			}
			return done(func(j Judge) Judge {
				switch {
				case ok:
					return j.OnAccused(x.clock(), revision, 100*time.Millisecond, false)
				case gone:
					return j.OnGone()
				}
				return j.OnGiveUp()
			})
		}, unknown)
	case Withdrawing:
		x.link.request(attempt, func() func() {
			if _, found := etcd.accusations[x.index]; found {
				delete(etcd.accusations, x.index)
				etcd.revision++
				x.w.happens["withdrawals"]++
			}
			_, gone := guard()
			return done(func(j Judge) Judge {
				if gone {
					return j.OnGone()
				}
				return j.OnWithdrawn()
			})
		}, unknown)
	case Removing:
		x.link.request(attempt, func() func() {
			ok, gone := guard()
			if ok = ok && etcd.accusations[x.index] == stands; ok {
				etcd.revision++
				etcd.member = 0
				clear(etcd.accusations)
				etcd.changed()
				x.w.happens["removals"]++
				if !m.stands && !m.dead {
					x.w.happens["removals of a member that runs"]++
				}
				x.w.note("%s: its removal is executed", x.name)
			}
			return done(func(j Judge) Judge {
				if ok || gone {
					return j.OnGone()
				}
				return j.OnRefuted(x.clock())
			})
		}, unknown)
	}
}

// registerAnew gives the watcher another incarnation. Its keys were taken.
func (x *watcher) registerAnew(after time.Duration) {
	etcd := x.w.etcd
	etcd.revision++
	etcd.watchers[x.index] = 0
	delete(etcd.accusations, x.index) // they were on its lease
	etcd.changed()
	x.w.note("%s is removed", x.name)
	x.w.happens["watchers removed"]++
	x.w.after(after, func() {
		x.happen(func() {
			etcd.revision++
			etcd.watchers[x.index], x.incarnation = etcd.revision, etcd.revision
			if !x.judge.released {
				x.judge = Judge{}
			}
			etcd.changed()
			x.w.note("%s is registered as %d", x.name, x.incarnation)
		})
	})
}

package simulation

import (
	"errors"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/linger"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/watchprogress"
)

// mirror stands for mirror.Mirror.Run: read at R, watch from R+1, fold, publish, read
// anew.
type mirror struct {
	p         *process
	snapshot  *state.Snapshot
	known     int64
	rebuild   bool          // asked for, and not done yet
	opened    time.Duration // when the present watch was
	fails     int           // to read, in a row
	pauses    watchprogress.Pauses
	watch     *watch // nil while reading or pausing
	way       watchprogress.Way
	mayReopen bool // one that was not opened is tried once more, by the next endpoint
	far       watchprogress.Watch
	lingers   linger.Part
	looks     int // at those who linger
	waiters   []*waiter
	timer     int // counts, so that a timer that was stopped or set anew says nothing
}

// readTimeout bounds a read of the cluster and a comparison with it.
const readTimeout = requestTimeout

var (
	errRebuild   = errors.New("asked to")
	errNotOpened = errors.New("etcd did not open the watch in time")
	errLag       = errors.New("the watch lags")
	errBroke     = errors.New("the watch broke")
)

// read is Mirror.read. It may be followed by another one only through lost.
func (m *mirror) read() {
	p := m.p
	m.rebuild = false // what is asked for before this read is answered by it
	known := m.known
	p.call(toRead, readTimeout, func(e *etcd) (answer, error) { return e.read(), nil }, func(a answer, err error) {
		if err != nil {
			m.failed(err)
			return
		}
		if a.revision < known {
			p.w.checks.fail("other-history", "%s takes etcd's history for another one: read %d, knew %d",
				p.id, a.revision, known)
		}
		m.learn(a.revision)
		first := m.snapshot == nil
		s, now := state.Build(p.w.keys, clusterID, a.revision, a.found), p.host.time()
		m.lingers, s = m.lingers.Term(a.term).Read(m.snapshot, s, now)
		m.lingers, s, _ = m.lingers.Look(s, now)
		m.publish(s)
		m.fails, m.way, m.mayReopen = 0, m.way.Read(), true
		m.open(a.revision)
		if first {
			p.looks = p.w.now
			p.keeper.open() // Cluster.run: the keeper waits for the mirror
		}
	})
}

// open begins to watch after a revision up to which nothing is missing.
func (m *mirror) open(upTo int64) {
	m.far = watchprogress.Since(upTo)
	m.watch = m.p.w.etcd.open(m.p, m.far.From())
	m.await()
	m.p.soon(m.look)
}

// await starts the timer of a watch that is opened, or lags.
func (m *mirror) await() {
	m.timer++
	mine := m.timer
	m.p.after(m.p.w.ttl/3, func() {
		switch {
		case m.timer != mine || m.watch == nil:
		case !m.far.Opened():
			m.lost(errNotOpened)
		default:
			m.compare()
		}
	})
}

// compare is Mirror.compare and what follows from its answer.
func (m *mirror) compare() {
	p, watch, upTo := m.p, m.watch, m.far.Awaited()
	p.call(toRead, readTimeout, func(e *etcd) (answer, error) { return e.readAt(upTo) }, func(a answer, err error) {
		var newest int64
		for _, kv := range a.found {
			newest = max(newest, kv.ModRevision)
		}
		switch {
		case m.watch != watch || m.far.Awaited() != upTo:
			return // an event or a report was faster
		case err != nil || m.snapshot.Lacks(newest, len(a.found)):
			m.lost(errLag)
			return
		}
		var again bool
		if m.way, again = m.way.Unreported(); again {
			p.w.checks.count(WatchReopened)
			m.unwatch()
			m.open(upTo)
			return
		}
		p.w.checks.count(WatchCompared)
		var timer watchprogress.Timer
		m.far, timer = m.far.Checked(m.known)
		m.set(timer)
	})
}

// receive is an answer of the watch.
func (m *mirror) receive(w *watch, msg message) {
	if m.watch != w {
		return
	}
	if msg.err != nil {
		m.lost(msg.err)
		return
	}
	m.lingers = m.lingers.Term(msg.term)
	if len(msg.events) > 0 {
		m.fold(msg.events)
	}
	if !m.far.Opened() {
		m.opened = m.p.w.now
	}
	if msg.progress {
		m.way = m.way.Reported()
	}
	var timer watchprogress.Timer
	m.far, timer = m.far.Answered(msg.revision, msg.opening, m.known)
	m.learn(m.far.Reached())
	m.set(timer)
	if msg.opening {
		m.p.host.hinder()
	}
	if m.rebuild && m.watch != nil {
		m.lost(errRebuild)
	}
}

func (m *mirror) fold(events []state.Event) {
	var s *state.Snapshot
	m.lingers, s = m.lingers.Apply(m.snapshot, events[len(events)-1].ModRevision, events, m.p.host.time())
	m.publish(s)
	if len(s.Lingering) > 0 {
		m.look()
	}
}

// look is Mirror.look.
func (m *mirror) look() {
	var s *state.Snapshot
	var again time.Duration
	m.lingers, s, again = m.lingers.Look(m.snapshot, m.p.host.time())
	if s != m.snapshot {
		m.publish(s)
	}
	m.looks++
	mine := m.looks
	if again > 0 {
		m.p.after(again, func() {
			if m.looks == mine {
				m.look()
			}
		})
	}
}

func (m *mirror) set(timer watchprogress.Timer) {
	switch timer {
	case watchprogress.Stop:
		m.timer++
	case watchprogress.Start:
		m.await()
		if m.way.Reports() {
			m.progress()
		}
	}
}

// progress asks for a progress report.
func (m *mirror) progress() {
	w, watch := m.p.w, m.watch
	if m.p.host.link.noRequests || m.p.host.roles.proxied {
		return
	}
	w.after(m.p.host.delay(), func() {
		if e := w.etcd; !e.away {
			e.send(watch, message{revision: e.revision, progress: true})
		}
	})
}

// saw is Mirror.Saw.
func (m *mirror) saw(revision, known int64) {
	if revision < known {
		m.p.w.checks.fail("other-history", "%s takes etcd's history for another one: saw %d, knew %d",
			m.p.id, revision, known)
	}
	if m.learn(revision) && m.watch != nil {
		var timer watchprogress.Timer
		m.far, timer = m.far.Reported(m.known)
		m.set(timer)
	}
}

func (m *mirror) learn(revision int64) bool {
	news := revision > m.known
	m.known = max(m.known, revision)
	return news
}

// requestRebuild is Mirror.Rebuild.
func (m *mirror) requestRebuild() {
	m.rebuild = true
	if m.watch != nil && m.far.Opened() {
		m.p.soon(func() {
			if m.rebuild && m.watch != nil {
				m.lost(errRebuild)
			}
		})
	}
}

// failed: a read did.
func (m *mirror) failed(err error) {
	m.stale(err)
	m.fails++
	m.p.after(watchprogress.ReadRetry.Delay(m.fails, backoff.NoJitter), m.read)
}

// lost is the rest of Run: mark stale, wait a little, start over.
func (m *mirror) lost(err error) {
	p := m.p
	stood, opened := p.w.now-m.opened, m.watch != nil && m.far.Opened()
	unopened := m.watch != nil && !opened
	m.unwatch()
	if unopened && m.mayReopen {
		m.mayReopen = false
		m.open(m.far.Reached())
		return
	}
	m.stale(err)
	if !opened {
		stood = 0
	}
	var pause time.Duration
	m.pauses, pause = m.pauses.Next(stood, p.w.ttl/3, backoff.NoJitter)
	p.after(pause, m.read)
}

// stale: the view is, until the cluster is read anew.
func (m *mirror) stale(err error) {
	p := m.p
	switch err {
	case errBroke:
		p.w.checks.count(WatchBroke)
	case errCompacted:
		p.w.checks.count(WatchCompacted)
	case errLag, errNotOpened:
		p.w.checks.count(WatchLagged)
	case errRebuild:
		p.w.checks.count(RebuildAsked)
	}
	if p.w.log != nil {
		p.w.log.of(p, "reads the cluster anew: %v", err)
	}
	if m.snapshot != nil && !m.snapshot.Stale {
		m.publish(m.snapshot.AsStale())
	}
}

func (m *mirror) unwatch() {
	m.timer++
	if m.watch != nil {
		m.p.host.hinder()
		m.p.w.etcd.close(m.watch)
		m.watch = nil
	}
}

// publish is Mirror.publish: it notifies those whom the change concerns.
func (m *mirror) publish(s *state.Snapshot) {
	before := m.snapshot
	m.snapshot = s
	p := m.p
	all := before == nil || before.Stale || s.Stale
	if all || p.election.concerned(before, s) {
		p.election.poke()
	}
	if all || before.Member(p.host.address) != s.Member(p.host.address) {
		p.member.poke()
	}
	p.election.published(s)
	p.detector.published(before, s)
	p.member.published(s)
	p.planner.published(before, s)
	if all || concernsShards(before, s) {
		p.holder.poke()
	}
	m.meet(s)
}

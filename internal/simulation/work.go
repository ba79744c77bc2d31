package simulation

import (
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
)

// What users do with a node: functions in Lead, writes under the fence, requests of
// operators, stops.

// registerKey is the key that leaders write to, outside the cluster's range.
const registerKey = "/register"

// work enters LeaderElection.Lead with the new term, or does not, and writes under it
// now and then.
func (e *leaderElection) work() {
	p, t := e.p, e.term
	if p.w.chance(2) {
		t.work++
	}
	e.writeOn(t)
	p.w.faults.moment(p, termBegan)
}

func (e *leaderElection) writeOn(t *term) {
	p := e.p
	p.after(p.w.between(0, p.w.ttl), func() {
		if e.term == t {
			e.write(t)
			e.writeOn(t)
		}
	})
}

// write is a transaction of Term.Txn.
func (e *leaderElection) write(t *term) {
	p := e.p
	if !t.valid() {
		return // Commit refuses
	}
	fenced := txn.Txn{If: txn.TermGuards(p.w.keys, t.Mode, t.s.lease, t.Token),
		Then: []txn.Op{{Kind: txn.Put, Key: registerKey, Value: p.id}}}
	p.call(toWrite, requestTimeout, func(e *etcd) (answer, error) {
		a, err := e.execute(p.host, fenced)
		if err == nil && a.held {
			e.w.checks.wrote(e.w, p, t)
		} else if err == nil {
			e.w.checks.count(WriteRefused)
		}
		return a, err
	}, func(answer, error) {})
}

// endWork: the term's context ended, and the functions return, sooner or later.
func (e *leaderElection) endWork() {
	p, t := e.p, e.ended
	if t.work == 0 {
		return
	}
	p.w.checks.count(WorkAwaited)
	d := p.w.between(0, 20*time.Millisecond)
	if p.w.chance(4) {
		d = p.w.between(0, 2*workTimeout)
	}
	p.after(d, func() {
		t.work = 0
		e.poke()
	})
}

// ask is request.Ask: a request about the leader, on this process's lease.
func (p *process) ask(kind state.RequestKind, target string) {
	s := p.mirror.snapshot
	if s == nil || !p.keeper.current || !p.keeper.valid() {
		return
	}
	leader := s.Leader()
	if leader.Address == "" || leader.Mode == election.ModeFallback || !leader.Member {
		return
	}
	request := state.RequestRecord{Kind: kind, Token: leader.Token}
	if kind == state.RequestTransfer {
		m := s.Member(target)
		if m == nil {
			return
		}
		request.Target, request.Incarnation = target, m.Incarnation
	}
	p.w.checks.requests++
	if p.w.log != nil {
		p.w.log.of(p, "asks for %s of token %d to %q", kind, request.Token, target)
	}
	ask := txn.Ask(p.w.keys, p.keeper.session.lease, s.Queue[0].Key, request)
	p.change(toAsk, requestTimeout, ask, func(a answer, err error) {
		if err != nil || !a.held {
			return
		}
		p.after(p.w.between(0, p.w.ttl), func() {
			p.change(toAsk, time.Second, txn.Unask(p.w.keys, a.revision), func(answer, error) {})
		})
	})
}

// leaving is how far a stop has come.
type leaving struct {
	begun    bool
	detector bool // it watches nobody any more
	closed   bool // it listens no more

	drained     bool  // its shards were others' before it released them
	incarnation int64 // of its own
	generation  int64 // of the map that it saw last
}

// stop is Cluster.Stop: mark stopping, withdraw, hand the shards over, say goodbye, serve
// to the end, revoke.
func (p *process) stop() {
	if p.leaving.begun {
		return
	}
	p.leaving.begun = true
	w := p.w
	if w.log != nil {
		w.log.of(p, "begins to stop")
	}
	p.member.want(func(r *state.Record) { r.Draining, r.Stopping = true, true })
	p.recorded(func(marked bool) {
		p.election.withdraw(func() {
			release := func() { p.relinquish(p.serveToTheEnd) }
			switch {
			case len(p.holder.slots) == 0:
				release()
			case marked:
				p.handOver(release)
			default:
				w.checks.count(StopCut)
				release()
			}
		})
	})
}

func (p *process) serveToTheEnd() {
	w := p.w
	p.leaving.detector, p.leaving.closed = true, true
	p.detector.stop()
	for _, s := range append([]*stream(nil), p.detector.watchers...) {
		s.end(suspicion.Goodbye, false, false)
	}
	if p.host.roles.drains {
		return // there is a call that takes forever
	}
	p.after(w.between(0, 200*time.Millisecond), func() {
		p.keeper.close(func() {
			if w.log != nil {
				w.log.of(p, "has stopped")
			}
			w.checks.stoppedWell(p)
			p.die(false)
		})
	})
}

package simulation

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
)

// bound is how long after everything was healed the cluster may take to be right.
func (w *world) bound() time.Duration { return 4*w.ttl + 15*time.Second }

// awaitEnd looks again and again whether all is as it should be in the end.
func (w *world) awaitEnd(healed time.Duration) {
	w.tidy()
	wrong := w.wrong()
	switch {
	case wrong == "":
		w.over = true
	case w.now-healed > w.bound():
		w.checks.fail("P6", "%v after everything was healed: %s", (w.now - healed).Round(time.Millisecond), wrong)
		if w.log != nil {
			w.log.truth()
		}
	default:
		w.after(w.ttl/8, func() { w.awaitEnd(healed) })
	}
}

// wrong is what is not yet as it should be, "" if all is.
func (w *world) wrong() string {
	truth := w.etcd.read()
	s := state.Build(w.keys, clusterID, truth.revision, truth.found)
	leaders := 0
	standing := 0
	for _, h := range w.hosts {
		p := h.process
		if p == nil {
			continue
		}
		if why := w.wrongWith(s, p); why != "" {
			return p.id + " " + why
		}
		if p.election.part.Standing() {
			standing++
		}
		if p.leads() {
			leaders++
		}
	}
	switch {
	case len(s.Queue) != standing:
		return fmt.Sprintf("%d members stand for election, the queue has %d entries", standing, len(s.Queue))
	case s.Acting != nil:
		return "there is an acting leader"
	case len(s.Accusations) > 0:
		return fmt.Sprintf("an accusation of %s is left", s.Accusations[0].Address)
	case standing > 0 && leaders != 1:
		return fmt.Sprintf("%d lead", leaders)
	}
	for _, l := range w.etcd.leases {
		if !w.inUse(l.id) {
			return fmt.Sprintf("lease %x is nobody's", l.id)
		}
	}
	return w.wrongShards(s)
}

// wrongWith is what is wrong with one process.
func (w *world) wrongWith(s *state.Snapshot, p *process) string {
	k := &p.keeper
	if !k.current || !k.session.valid() {
		return "has no session"
	}
	m := s.Member(p.host.address)
	switch {
	case m == nil || m.InstanceID != p.id || m.Lease != k.session.lease || m.KeyLease != k.session.lease:
		return "is not registered"
	case p.election.part.Standing() && (p.election.part.Failed() || m.ElectionFailed):
		return "says that its election failed"
	}
	queued := 0
	for _, c := range s.Queue {
		if c.KeyLease == k.session.lease && c.Lease == k.session.lease && c.Address == p.host.address {
			queued++
		}
	}
	switch {
	case p.election.part.Standing() && queued != 1:
		return fmt.Sprintf("stands for election and queues %d times", queued)
	case !p.election.part.Standing() && !p.election.part.Clear(p.mirror.snapshot):
		return "does not stand for election, and has not left it"
	case !p.election.part.Standing() && queued != 0:
		return "does not stand for election, and queues"
	case p.election.part.Standing() && p.leads() != (s.Queue[0].KeyLease == k.session.lease):
		return fmt.Sprintf("leads: %t, and the first in the queue is %s", p.leads(), s.Queue[0].Address)
	case p.election.term != nil && !p.leads():
		return "is in a term without a session"
	}
	if why := w.unwatched(s, p); why != "" {
		return why
	}
	return w.differs(s, p.mirror.snapshot)
}

// unwatched is whom a process does not watch, though it should and can.
func (w *world) unwatched(s *state.Snapshot, p *process) string {
	if !p.host.roles.detect || p.leaving.begun {
		return ""
	}
	for _, m := range suspicion.Targets(s, p.self(), watchers, func(*state.Member) bool { return true }) {
		if there := w.host(m.Address).process; there == nil || there.leaving.begun {
			continue
		}
		if c := p.detector.of(m.Address); c == nil || c.incarnation != m.Incarnation || c.c.Phase != suspicion.Watching ||
			c.stream == nil {
			return fmt.Sprintf("does not watch %s", m.Address)
		}
	}
	return ""
}

// differs is in what a process's snapshot differs from the truth.
func (w *world) differs(truth, s *state.Snapshot) string {
	if s.Stale {
		return "has a stale snapshot"
	}
	same := len(s.Queue) == len(truth.Queue) && len(s.Members) == len(truth.Members) &&
		(s.Acting == nil) == (truth.Acting == nil) && len(s.Accusations) == len(truth.Accusations) &&
		len(s.Released) == len(truth.Released) && (s.ShardMap == nil) == (truth.ShardMap == nil) &&
		(s.ShardMap == nil || s.ShardMap.ModRevision == truth.ShardMap.ModRevision)
	for i := 0; same && i < len(s.Queue); i++ {
		same = *s.Queue[i] == *truth.Queue[i]
	}
	for i := 0; same && i < len(s.Members); i++ {
		a, b := s.Members[i], truth.Members[i]
		same = a.Address == b.Address && a.Incarnation == b.Incarnation && a.ModRevision == b.ModRevision
	}
	if !same {
		return fmt.Sprintf("has a snapshot of revision %d that differs from the truth", s.Revision)
	}
	return ""
}

// tidy takes away what was taken off its lease out of band, and whose process
// is not there to put it right: nobody else may.
func (w *world) tidy() {
	e := w.etcd
	w.deleteMap()
	for i := 0; i < len(e.keys); i++ {
		kv := e.keys[i]
		if kv.Lease == 0 && kv.Key != registerKey && kv.Key != w.keys.ShardMap() && !w.cared(kv) {
			e.author = cause{}
			_, _ = e.execute(nil, txn.Txn{Then: []txn.Op{{Kind: txn.Delete, Key: kv.Key}}})
			i--
		}
	}
}

// cared reports whether a process stands on a key, and so will put it right.
func (w *world) cared(kv state.KV) bool {
	parsed := w.keys.Parse(kv.Key)
	if parsed.Kind != state.KindNode {
		return parsed.Kind == state.KindCandidate && w.inUse(parsed.Lease)
	}
	p := w.host(parsed.Address).process
	return p != nil && p.member.incarnation == kv.CreateRevision && p.keeper.session.lost == ""
}

// inUse reports whether a lease is that of a session that stands.
func (w *world) inUse(id int64) bool {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.keeper.session != nil && p.keeper.session.lease == id &&
			p.keeper.session.lost == "" {
			return true
		}
	}
	return false
}

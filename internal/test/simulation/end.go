package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
)

// recoveryBound returns the time that the cluster may take to recover after everything was healed.
func (w *world) recoveryBound() time.Duration { return 4*w.ttl + 15*time.Second }

// awaitRecovery checks repeatedly whether the cluster has recovered, and ends the run.
func (w *world) awaitRecovery(healed time.Duration) {
	w.deleteOrphanKeys()
	wrong := w.findDeviation()
	switch {
	case wrong == "":
		w.checks.checkClaims(w)
		w.endRun()
	case w.Now()-healed > w.recoveryBound():
		w.Fail("P6 broken: %v after everything was healed: %s", (w.Now() - healed).Round(time.Millisecond), wrong)
		w.logKeys()
		w.endRun()
	default:
		w.After(w.ttl/8, func() { w.awaitRecovery(healed) })
	}
}

// trueSnapshot returns the truth in the form of a member's snapshot.
func (w *world) trueSnapshot() *state.Snapshot {
	var kvs []state.KV
	for _, kv := range w.Etcd.Keys(w.keys.Prefix()) {
		if key := string(kv.Key); key >= w.keys.RangeStart() && key < w.keys.RangeEnd() {
			kvs = append(kvs, state.KV{Key: key, Value: kv.Value, CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, Lease: kv.Lease})
		}
	}
	return state.BuildSnapshot(w.keys, 0, w.Etcd.Revision(), kvs)
}

// findDeviation returns the first deviation from a recovered cluster, or "" if there is none.
func (w *world) findDeviation() string {
	s := w.trueSnapshot()
	leaders, standing := 0, 0
	for _, h := range w.hosts {
		p := h.process
		if p == nil {
			continue // it was asked to stop, and has stopped
		}
		if why := w.processDeviation(s, p); why != "" {
			return p.id + " " + why
		}
		if p.isCandidate() {
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
	for _, x := range s.Silences {
		// A node that stops closes its port, and erases its marks no more, maybe long before its last call ends.
		if p := w.hostAt(x.Address).process; (p == nil || !p.stopRequested) && !w.watcherStops(x.Watcher) {
			return fmt.Sprintf("%s is reported silent", x.Address)
		}
	}
	for _, l := range w.Etcd.Leases() {
		if !w.leaseInUse(l.ID) {
			return fmt.Sprintf("lease %x belongs to no session", l.ID)
		}
	}
	if why := w.silenceDeviation(); why != "" {
		return why
	}
	return w.shardDeviation(s)
}

// watcherStops reports whether the process with that instance id was asked to stop.
func (w *world) watcherStops(id string) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.process != nil && h.process.id == id && h.process.stopRequested
	})
}

// isCandidate reports whether the process stands for election.
func (p *process) isCandidate() bool { return !p.host.roles.observer && !p.stopRequested }

// processDeviation returns the first deviation at one process.
func (w *world) processDeviation(s *state.Snapshot, p *process) string {
	session := p.session()
	switch {
	case session == nil && p.stopRequested && !p.joined:
		return "" // it has ended its session, and only serves to the end
	case session == nil || !session.Valid():
		return "has no session"
	}
	lease := int64(session.ID())
	m := s.Member(p.host.address)
	switch {
	case m == nil || m.InstanceID != p.id || m.Lease != lease || m.KeyLease != lease:
		return "is not registered"
	case p.isCandidate() && (p.election.Failed() != nil || m.ElectionFailed):
		return "says that its election failed"
	}
	queued := 0
	for _, c := range s.Queue {
		if c.KeyLease == lease && c.Lease == lease && c.Address == p.host.address {
			queued++
		}
	}
	switch {
	case p.isCandidate() && queued != 1:
		return fmt.Sprintf("stands for election and queues %d times", queued)
	case !p.isCandidate() && queued != 0:
		return "does not stand for election, and queues"
	case p.isCandidate() && p.leads() != (s.Queue[0].KeyLease == lease):
		return fmt.Sprintf("leads: %t, and the first in the queue is %s", p.leads(), s.Queue[0].Address)
	}
	if why := w.unwatchedMember(s, p); why != "" {
		return why
	}
	return snapshotDifference(s, p.registered.Mirror.Snapshot())
}

// unwatchedMember returns a member that a process should and can watch but does not.
func (w *world) unwatchedMember(s *state.Snapshot, p *process) string {
	if !w.crashDetection || p.stopRequested || p.host.roles.electionOnly {
		return ""
	}
	me := suspicion.Self{Address: p.host.address, InstanceID: p.id, Lease: int64(p.session().ID())}
	for _, m := range suspicion.WatchTargets(s, me, suspicion.DefaultWatchers, func(*state.Member) bool { return true }) {
		if there := w.hostAt(m.Address).process; there != nil && !there.stopRequested && !p.node.watchesProcess(there) {
			return fmt.Sprintf("does not watch %s", m.Address)
		}
	}
	return ""
}

// snapshotDifference returns the difference between a process's snapshot and the truth.
func snapshotDifference(truth, s *state.Snapshot) string {
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

// deleteOrphanKeys deletes keys that an out-of-band change took off their lease, if their own process cannot repair
// them. No other process may delete them.
func (w *world) deleteOrphanKeys() {
	w.deleteMap()
	for _, kv := range w.Etcd.Keys(w.keys.Prefix()) {
		if key := string(kv.Key); kv.Lease == 0 && key != w.keys.ShardMap() && !w.hasLivingOwner(key, kv.CreateRevision) {
			w.changeOutOfBand(byNobody, deleteOp(key))
		}
	}
}

// hasLivingOwner reports whether a living process owns a key, and will therefore repair it.
func (w *world) hasLivingOwner(key string, created int64) bool {
	parsed := w.keys.Parse(key)
	if parsed.Kind != state.KindNode {
		return parsed.Kind == state.KindCandidate && w.leaseInUse(parsed.Lease)
	}
	p := w.hostAt(parsed.Address).process
	return p != nil && w.checks.lastIncarnation(p) == created && p.session() != nil && p.session().Err() == nil
}

// leaseInUse reports whether a lease belongs to a session that has not ended.
func (w *world) leaseInUse(id int64) bool {
	for _, h := range w.hosts {
		if p := h.process; p != nil {
			if s := p.session(); s != nil && int64(s.ID()) == id && s.Err() == nil {
				return true
			}
		}
	}
	return false
}

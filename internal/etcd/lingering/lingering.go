// Package lingering keeps members in view after their keys went with their lease, as long as they may not have
// noticed. Other nodes do not take over from them meanwhile. The package is pure; package watchcache runs it.
//
// A lease that ends by itself has outlived its member's deadline, so waiting is unnecessary. But etcd revokes
// some leases too early. A leader of etcd that stood still and was deposed meanwhile may consider leases
// expired that its successor has renewed, and has all of them revoked when it continues (etcd's issue 15247).
// No watch distinguishes the two cases. Two facts do:
//
//   - A lease granted in the present raft term is not at risk, because a deposed leader knows only older
//     leases; a member with such a lease does not linger. A member's record has the term of its lease.
//   - If another lease that is as old still stands, the deposed leader was not at work: it would have had
//     that one revoked too. The exception is a deposed leader that steps down in the middle. Then one of
//     the members that lost their leases reports it: it registers anew, and its record says that its lease
//     was revoked early.
//
// If another old lease stands and no member reports an early revocation, the lease most likely ended by itself,
// and the member lingers for a grace period, the longest of all lingering members. In that time it learns of
// the loss, if it is connected, and so do the others that could report it. The caller of [Members.Expire] has seen all
// that was reported by then. Otherwise it lingers for a whole
// TTL, after which none of its claims is valid. In both cases lingering ends as soon as the member registers
// anew. A process that registers at the address of a node ends it too, because only one can be bound to that; under
// the identity of a member of an election only, which is a name, another process does not. A member does not linger
// if it was removed on evidence, or if its record says that it had left. A member that resigned or released a shard
// before its lease ended holds nothing there that others would wait for.
//
// Not promised: the package does not cover a member that is cut off for longer than the grace period while a
// deposed leader has that lease revoked and leaves another; candidates that are not members, such as `etcdctl
// elect`; and members that were gone before this process started.
package lingering

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
)

// gracePeriod is the shortest time for which a member lingers. A member far from etcd lingers as long as it
// would have to refute an accusation.
const gracePeriod = 200 * time.Millisecond

// Members holds the lingering members in one process's view. It is immutable.
type Members struct {
	own           Self
	term          uint64    // etcd's newest known raft term
	earlyReported time.Time // when a member last reported an early revocation of its lease
	kept          []keptMember
}

type keptMember struct {
	state.LingeringState
	since time.Time
}

// Self identifies the process whose view it is. The zero value is a process that is no member.
type Self struct{ Address, InstanceID string }

// isMember reports whether m is this process, or was registered at its address before.
func (own Self) isMember(m *state.Member) bool {
	return m.Address == own.Address && isSuccessor(own.InstanceID, m)
}

// isSuccessor reports whether the process with that instance id, at the address of m, shows that m has no claims any
// more. Only one process can be bound to the address of a node. But the identity of a member of an election only is a
// name, which another process may have too.
func isSuccessor(instance string, m *state.Member) bool {
	return !m.ElectionOnly || instance == m.InstanceID
}

// registeredAnew reports whether m, which is gone, has registered anew in s.
func registeredAnew(s *state.Snapshot, m *state.Member) bool {
	now := s.Member(m.Address)
	return now != nil && isSuccessor(now.InstanceID, m)
}

// New returns the Members of a process, with no member lingering. The process itself never lingers in it, because it
// knows its own keys and claims. In the zero Members no member ever lingers.
func New(own Self) Members { return Members{own: own} }

// OnTerm returns the Members after an answer of etcd in the given raft term.
func (p Members) OnTerm(term uint64) Members {
	p.term = max(p.term, term)
	return p
}

// Apply folds events, as [state.Snapshot.Apply] does, and keeps members in view that begin to linger.
func (p Members) Apply(s *state.Snapshot, revision int64, events []state.Event,
	now time.Time) (Members, *state.Snapshot) {
	if p.own.Address == "" {
		return p, s.Apply(revision, events)
	}
	if len(p.kept) == 0 && !p.anyMayLinger(s, events) {
		s = s.Apply(revision, events)
		return p.recordReports(s, events, now), s
	}
	for len(events) > 0 {
		n := slices.IndexFunc(events, func(ev state.Event) bool { return ev.ModRevision != events[0].ModRevision })
		if n < 0 {
			n = len(events)
		}
		if events[0].ModRevision > s.Revision {
			p, s = p.applyRevision(s, events[:n], now)
		}
		events = events[n:]
	}
	return p, s.Apply(revision, nil)
}

// anyMayLinger reports whether a member may begin to linger with these events. Every node calls it for every
// change.
func (p Members) anyMayLinger(s *state.Snapshot, events []state.Event) bool {
	return slices.ContainsFunc(events, func(ev state.Event) bool {
		if !ev.Deleted {
			return false
		}
		k := s.Keys.Parse(ev.Key)
		m := s.Member(k.Address)
		return k.Kind == state.KindNode && (m == nil || p.mayLinger(s, m)) // m may be created by the same events
	})
}

// recordReports records the reports of members that registered in these events.
func (p Members) recordReports(s *state.Snapshot, events []state.Event, now time.Time) Members {
	for _, ev := range events {
		if ev.Deleted || ev.CreateRevision != ev.ModRevision {
			continue
		}
		if k := s.Keys.Parse(ev.Key); k.Kind == state.KindNode {
			p = p.recordReport(s.Member(k.Address), now)
		}
	}
	return p
}

// applyRevision folds the events of one revision.
func (p Members) applyRevision(s *state.Snapshot, events []state.Event, now time.Time) (Members, *state.Snapshot) {
	var gone []*state.Member
	for _, ev := range events {
		k := s.Keys.Parse(ev.Key)
		if k.Kind != state.KindNode {
			continue
		}
		if !ev.Deleted { // a member that lingered there has noticed
			record, _ := state.DecodeRecord(ev.Value)
			p, s = p.forgetMembers(s, func(x keptMember) bool {
				return x.Member.Address == k.Address && isSuccessor(record.InstanceID, x.Member)
			})
		} else if m := s.Member(k.Address); m != nil && p.mayLinger(s, m) && !removedOnEvidence(s, events, m) {
			gone = append(gone, m)
		}
	}
	next := s.Apply(events[0].ModRevision, events)
	p, next = p.keepMembers(s, next, gone, now)
	return p.recordReports(next, events, now), next
}

// keepMembers returns the Members and the next snapshot with these members, which are gone from s, kept in view.
func (p Members) keepMembers(s, next *state.Snapshot, gone []*state.Member, now time.Time) (Members, *state.Snapshot) {
	p.kept = slices.Clone(p.kept)
	for _, m := range gone {
		k := keptMember{s.LostState(m, next), now}
		next, p.kept = next.WithLingering(k.LingeringState), append(p.kept, k)
	}
	return p, next
}

// mayLinger reports whether a member without its key may not have noticed that.
func (p Members) mayLinger(s *state.Snapshot, m *state.Member) bool {
	return m.Term < p.term && !p.own.isMember(m) && !m.Left && !s.Lingers(m)
}

// ViewFresh reports whether, in the given raft term of etcd, no member lingers in the view of the process,
// and none can begin to. For a process that is no member it always returns true.
func ViewFresh(s *state.Snapshot, own Self, term uint64) bool {
	return own.Address == "" || len(s.Lingering) == 0 && !slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		return m.Term < term && !own.isMember(m) && !m.Left
	})
}

// removedOnEvidence reports whether the events of the revision that deleted a member's key removed it on evidence. They
// then also delete an accusation or, if the member was removed for its silence, put the mark of that.
func removedOnEvidence(s *state.Snapshot, events []state.Event, m *state.Member) bool {
	return slices.ContainsFunc(events, func(ev state.Event) bool {
		k := s.Keys.Parse(ev.Key)
		if k.Kind != state.KindAccusation || k.Address != m.Address {
			return false
		}
		if ev.Deleted {
			return true
		}
		record, err := state.DecodeAccusation(ev.Value)
		return err == nil && record.MarksRemoval(m)
	})
}

// recordReport records the report of a member that has registered.
func (p Members) recordReport(m *state.Member, now time.Time) Members {
	if m != nil && m.RevokedEarly {
		p.earlyReported = now
	}
	return p
}

// OnRead returns the Members and the view after the range was read anew: s with the members that linger, given the
// view before. Of the members that are gone, only those with the mark of their removal are known to have been removed
// on evidence. A plain accusation shows nothing: its member's lease may have ended while it stood.
func (p Members) OnRead(before, s *state.Snapshot, now time.Time) (Members, *state.Snapshot) {
	if p.own.Address == "" || before == nil || before.History != s.History {
		return New(p.own), s
	}
	for _, m := range s.Members {
		if was := before.Member(m.Address); was == nil || was.Incarnation != m.Incarnation {
			p = p.recordReport(m, now)
		}
	}
	var gone []*state.Member
	for _, m := range before.Members {
		if !registeredAnew(s, m) && p.mayLinger(before, m) && s.RemovalMarkOf(m) == nil {
			gone = append(gone, m)
		}
	}
	old := p.kept
	p.kept = nil
	next := s
	for _, k := range old {
		if !registeredAnew(s, k.Member) {
			next, p.kept = next.WithLingering(k.LingeringState), append(p.kept, k)
		}
	}
	return p.keepMembers(before, next, gone, now)
}

// Expire removes the members from view that need not linger any longer. It returns the time after which to look
// again, 0 for never. The snapshot is s itself if no member was removed.
func (p Members) Expire(s *state.Snapshot, now time.Time) (_ Members, _ *state.Snapshot, again time.Duration) {
	before := s
	p, s = p.forgetMembers(s, func(k keptMember) bool { return !now.Before(p.lingersUntil(before, k)) })
	for _, k := range p.kept {
		if left := p.lingersUntil(s, k).Sub(now); again == 0 || left < again {
			again = left
		}
	}
	return p, s, again
}

// lingersUntil returns the time from which no claim of the member is valid.
func (p Members) lingersUntil(s *state.Snapshot, k keptMember) time.Time {
	ttl := time.Duration(k.Member.TTL) * time.Second
	reported := !p.earlyReported.IsZero() && k.since.Sub(p.earlyReported) <= ttl
	stands := slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		return m.Term <= k.Member.Term && !s.Lingers(m)
	})
	if reported || !stands {
		return k.since.Add(ttl)
	}
	var period time.Duration
	// An early revocation that any of them reports concerns all, and the report of a far member takes longer.
	for _, other := range p.kept {
		period = max(period, suspicion.GracePeriod(gracePeriod, 0, other.Member))
	}
	return k.since.Add(min(ttl, period))
}

func (p Members) forgetMembers(s *state.Snapshot, over func(keptMember) bool) (Members, *state.Snapshot) {
	old := p.kept
	p.kept = nil
	for _, k := range old {
		if over(k) {
			s = s.WithoutLingering(k.LingeringState)
		} else {
			p.kept = append(p.kept, k)
		}
	}
	return p, s
}

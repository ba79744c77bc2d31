// Package lingering keeps members in view whose keys went with their lease, while they may not know
// of it: nobody takes over from them meanwhile. It is pure; package watchcache runs it.
//
// A lease that ends by itself has outlived its member's deadline, so nobody would have to wait. But
// etcd ends some too early. A leader of etcd that stood still, and was deposed meanwhile, takes the
// leases for run out that its successor has renewed, and has all of them revoked when it goes on
// (etcd's issue 15247). No watch distinguishes the one from the other. What tells them apart:
//
//   - The lease was granted in an older raft term than the present one. A deposed leader knows no
//     other leases, and without one there is nothing to fear: nobody lingers. A member's record says in
//     which term its lease was granted.
//   - Another member has a lease that is as old, and that stands: the deposed leader would have had it
//     revoked too. Unless it steps down in the middle of that; then one of those whose leases are gone
//     says so: it registers anew, and its record reports that its lease was revoked before its time.
//
// If another old lease stands, and nobody reports that, the lease has ended by itself, as far as anybody knows,
// and the member lingers for a grace period, the longest of those that linger: in that time it hears of it, if it
// is connected, and so do the others that could report it. Else it lingers for a whole TTL, after which nothing that
// it claims is valid, or until it has heard of it and registers anew.
// Nobody lingers who was removed on evidence, or had left, as its record says; who resigned or gave a shard up
// before its lease ended has nothing more that others would wait for.
//
// Not promised: anything about a member that is cut off for longer than the grace period, while a
// deposed leader has its lease alone revoked and leaves another; about what is no member, like
// `etcdctl elect`; that a process which starts sees those who went before.
package lingering

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
)

// gracePeriod is how long a member lingers at least; one far from etcd as long as it would have to refute an
// accusation.
const gracePeriod = 200 * time.Millisecond

// Part is what one process keeps in view. It is immutable.
type Part struct {
	own   string
	term  uint64    // of etcd's raft, the newest that is known
	early time.Time // when a member last reported that its lease was revoked too early
	kept  []kept
}

type kept struct {
	state.Kept
	since time.Time
}

// New is the part of the member at own, of which nothing is kept: it knows of its keys, and of what it
// claims. The zero Part keeps nobody.
func New(own string) Part { return Part{own: own} }

// Term is the part after an answer of etcd's in that raft term.
func (p Part) Term(term uint64) Part {
	p.term = max(p.term, term)
	return p
}

// Apply folds events, as [state.Snapshot.Apply] does, and keeps those in view who linger from now on.
func (p Part) Apply(s *state.Snapshot, revision int64, events []state.Event,
	now time.Time) (Part, *state.Snapshot) {
	if p.own == "" {
		return p, s.Apply(revision, events)
	}
	if len(p.kept) == 0 && !p.concerned(s, events) {
		s = s.Apply(revision, events)
		return p.listen(s, events, now), s
	}
	for len(events) > 0 {
		n := slices.IndexFunc(events, func(ev state.Event) bool { return ev.ModRevision != events[0].ModRevision })
		if n < 0 {
			n = len(events)
		}
		if events[0].ModRevision > s.Revision {
			p, s = p.step(s, events[:n], now)
		}
		events = events[n:]
	}
	return p, s.Apply(revision, nil)
}

// concerned reports whether somebody may linger after the events. It is asked at every change, on
// every node.
func (p Part) concerned(s *state.Snapshot, events []state.Event) bool {
	return slices.ContainsFunc(events, func(ev state.Event) bool {
		if !ev.Deleted {
			return false
		}
		k := s.Keys.Parse(ev.Key)
		m := s.Member(k.Address)
		return k.Kind == state.KindNode && (m == nil || p.mayLinger(s, m)) // m may come in the same events
	})
}

// listen takes note of what those say who have registered.
func (p Part) listen(s *state.Snapshot, events []state.Event, now time.Time) Part {
	for _, ev := range events {
		if ev.Deleted || ev.CreateRevision != ev.ModRevision {
			continue
		}
		if k := s.Keys.Parse(ev.Key); k.Kind == state.KindNode {
			p = p.reported(s.Member(k.Address), now)
		}
	}
	return p
}

// step folds the events of one revision.
func (p Part) step(s *state.Snapshot, events []state.Event, now time.Time) (Part, *state.Snapshot) {
	var gone []*state.Member
	for _, ev := range events {
		k := s.Keys.Parse(ev.Key)
		if k.Kind != state.KindNode {
			continue
		}
		if !ev.Deleted { // who lingered there has heard of it
			p, s = p.forget(s, func(x kept) bool { return x.Member.Address == k.Address })
		} else if m := s.Member(k.Address); m != nil && p.mayLinger(s, m) && !removed(s, events, m) {
			gone = append(gone, m)
		}
	}
	next := s.Apply(events[0].ModRevision, events)
	p, next = p.keep(s, next, gone, now)
	return p.listen(next, events, now), next
}

// keep keeps what is gone from s of these members in view of the next snapshot.
func (p Part) keep(s, next *state.Snapshot, gone []*state.Member, now time.Time) (Part, *state.Snapshot) {
	p.kept = slices.Clone(p.kept)
	for _, m := range gone {
		k := kept{s.Lost(m, next), now}
		next, p.kept = next.Keep(k.Kept), append(p.kept, k)
	}
	return p, next
}

// mayLinger reports whether a member whose key is gone may not know it.
func (p Part) mayLinger(s *state.Snapshot, m *state.Member) bool {
	return m.Term < p.term && m.Address != p.own && !m.Left && !s.Lingers(m)
}

// Fresh reports whether in that raft term of etcd's nobody lingers in the view of the member at own, and
// nobody can begin to. Where own is "" nobody ever does.
func Fresh(s *state.Snapshot, own string, term uint64) bool {
	return own == "" || len(s.Lingering) == 0 && !slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		return m.Term < term && m.Address != own && !m.Left
	})
}

// removed reports whether the events that deleted a member's key removed it on evidence: they deleted
// an accusation too.
func removed(s *state.Snapshot, events []state.Event, m *state.Member) bool {
	return slices.ContainsFunc(events, func(ev state.Event) bool {
		k := s.Keys.Parse(ev.Key)
		return ev.Deleted && k.Kind == state.KindAccusation && k.Address == m.Address
	})
}

// reported takes note of what a member says that has registered.
func (p Part) reported(m *state.Member, now time.Time) Part {
	if m != nil && m.RevokedEarly {
		p.early = now
	}
	return p
}

// Read is what a snapshot that was read anew shows after the one before, with those who linger.
func (p Part) Read(before, s *state.Snapshot, now time.Time) (Part, *state.Snapshot) {
	if p.own == "" || before == nil || before.History != s.History {
		return New(p.own), s
	}
	for _, m := range s.Members {
		if was := before.Member(m.Address); was == nil || was.Incarnation != m.Incarnation {
			p = p.reported(m, now)
		}
	}
	var gone []*state.Member
	for _, m := range before.Members {
		if s.Member(m.Address) == nil && p.mayLinger(before, m) {
			gone = append(gone, m)
		}
	}
	old := p.kept
	p.kept = nil
	next := s
	for _, k := range old {
		if s.Member(k.Member.Address) == nil {
			next, p.kept = next.Keep(k.Kept), append(p.kept, k)
		}
	}
	return p.keep(before, next, gone, now)
}

// Look lets those go who need not linger any longer, and says after which time to look again; 0 is
// never. The snapshot is s itself if nobody goes.
func (p Part) Look(s *state.Snapshot, now time.Time) (_ Part, _ *state.Snapshot, again time.Duration) {
	before := s
	p, s = p.forget(s, func(k kept) bool { return !now.Before(p.until(before, k)) })
	for _, k := range p.kept {
		if left := p.until(s, k).Sub(now); again == 0 || left < again {
			again = left
		}
	}
	return p, s, again
}

// until is when nothing that the member claims is valid any more.
func (p Part) until(s *state.Snapshot, k kept) time.Time {
	ttl := time.Duration(k.Member.TTL) * time.Second
	reported := !p.early.IsZero() && k.since.Sub(p.early) <= ttl
	stands := slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		return m.Term <= k.Member.Term && !s.Lingers(m)
	})
	if reported || !stands {
		return k.since.Add(ttl)
	}
	var period time.Duration
	for _, other := range p.kept { // a report of any of them counts for all, and takes as long as that one is far
		period = max(period, suspicion.GracePeriod(gracePeriod, 0, other.Member))
	}
	return k.since.Add(min(ttl, period))
}

func (p Part) forget(s *state.Snapshot, over func(kept) bool) (Part, *state.Snapshot) {
	old := p.kept
	p.kept = nil
	for _, k := range old {
		if over(k) {
			s = s.Forget(k.Kept)
		} else {
			p.kept = append(p.kept, k)
		}
	}
	return p, s
}

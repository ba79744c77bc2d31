package state

import (
	"slices"

	"github.com/goverse/goverse/internal/sharding"
)

// Kept holds the state that is kept of a member after its keys are gone.
type Kept struct {
	Member    *Member
	Candidate *Candidate // its entry in the queue; nil if it had none
	Acting    *Acting    // its acting key; nil if it had none
	Shards    []int      // shards that it may serve, in order
}

// Lingers reports whether the member is a lingering one.
func (s *Snapshot) Lingers(m *Member) bool { return s.lingering(m) >= 0 }

// Registered returns the members with keys in etcd, sorted by address: all that do not linger.
func (s *Snapshot) Registered() []*Member {
	if len(s.Lingering) == 0 {
		return s.Members
	}
	return slices.DeleteFunc(slices.Clone(s.Members), s.Lingers)
}

func (s *Snapshot) lingering(m *Member) int {
	return slices.IndexFunc(s.Lingering, func(k Kept) bool { return k.Member == m })
}

// Withheld reports whether a lingering member may serve the shard, whatever the present map says.
func (s *Snapshot) Withheld(shard int) bool {
	return slices.ContainsFunc(s.Lingering, func(k Kept) bool {
		_, found := slices.BinarySearch(k.Shards, shard)
		return found
	})
}

// Lost returns the part of m's state in s that is missing in a later snapshot.
func (s *Snapshot) Lost(m *Member, later *Snapshot) Kept {
	k := Kept{Member: m, Shards: s.shardsOf(m)}
	if m.KeyLease == 0 {
		return k
	}
	if c, _ := later.Candidate(m.KeyLease); c == nil {
		k.Candidate, _ = s.Candidate(m.KeyLease)
	}
	if later.ActingOn(m.KeyLease) == nil {
		k.Acting = s.ActingOn(m.KeyLease)
	}
	return k
}

// shardsOf returns the shards that m may serve: those that the map assigns to it, and those that it has yet to
// release.
func (s *Snapshot) shardsOf(m *Member) []int {
	shards := s.Map()
	if shards == nil {
		return nil
	}
	var out []int
	is := func(o sharding.Owner) bool { return o.Address == m.Address && o.Incarnation == m.Incarnation }
	for shard := range shards.Shards() {
		owner, ok := shards.Owner(shard)
		move, open := shards.Move(shard)
		if ok && is(owner) || open && is(move.From) && !s.MoveDone(move) {
			out = append(out, shard)
		}
	}
	return out
}

// Keep returns s with the state of k added where it is missing, and the member marked as lingering. s does not
// change.
func (s *Snapshot) Keep(k Kept) *Snapshot {
	next := *s
	if i, there := next.memberIndex(k.Member.Address); !there {
		next.Members = with(next.Members, i, k.Member)
	}
	if k.Candidate != nil {
		if i, there := slices.BinarySearchFunc(next.Queue, k.Candidate, compareCandidates); !there {
			next.Queue = with(next.Queue, i, k.Candidate)
		}
	}
	if k.Acting != nil && next.Acting == nil {
		next.Acting = k.Acting
	}
	if !next.Lingers(k.Member) {
		next.Lingering = with(next.Lingering, len(next.Lingering), k)
	}
	return &next
}

// Forget returns s without k. State that has replaced that of k stays. s does not change.
func (s *Snapshot) Forget(k Kept) *Snapshot {
	next := *s
	if i, there := next.memberIndex(k.Member.Address); there && next.Members[i] == k.Member {
		next.Members = without(next.Members, i)
	}
	if i := slices.Index(next.Queue, k.Candidate); k.Candidate != nil && i >= 0 {
		next.Queue = without(next.Queue, i)
	}
	if k.Acting != nil && next.Acting == k.Acting {
		next.Acting = nil
	}
	if i := next.lingering(k.Member); i >= 0 {
		next.Lingering = without(next.Lingering, i)
	}
	return &next
}

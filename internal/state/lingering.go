package state

import (
	"slices"

	"github.com/goverse/goverse/internal/sharding"
)

// Kept is what is kept in view of a member whose keys are gone.
type Kept struct {
	Member    *Member
	Candidate *Candidate // its place in the queue, nil if it had none
	Acting    *Acting    // its place in fallback, nil if it had none
	Shards    []int      // that it may serve, in order
}

// Lingers reports whether the member is only kept in view.
func (s *Snapshot) Lingers(m *Member) bool { return s.lingering(m) >= 0 }

// Registered are the members whose keys are in etcd, by address: all but those that linger.
func (s *Snapshot) Registered() []*Member {
	if len(s.Lingering) == 0 {
		return s.Members
	}
	return slices.DeleteFunc(slices.Clone(s.Members), s.Lingers)
}

func (s *Snapshot) lingering(m *Member) int {
	return slices.IndexFunc(s.Lingering, func(k Kept) bool { return k.Member == m })
}

// Withheld reports whether a member that lingers may serve the shard, whatever the map says meanwhile.
func (s *Snapshot) Withheld(shard int) bool {
	return slices.ContainsFunc(s.Lingering, func(k Kept) bool {
		_, found := slices.BinarySearch(k.Shards, shard)
		return found
	})
}

// Lost is what s has of a member and a later snapshot has not: its key is gone there.
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

// shardsOf are the shards that m may serve: those that the map names it for, and those that it has yet to
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

// Keep is s with what it lacks of k, the member among those that linger. s stays as it is, and so
// with Forget.
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

// Forget is s without k. What stands in its place meanwhile stays.
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

package state

import (
	"slices"

	"github.com/goverse/goverse/internal/sharding"
)

// LingeringState holds the state that is kept of a member after its keys are gone.
type LingeringState struct {
	Member    *Member
	Candidate *Candidate // its entry in the queue; nil if it had none
	Acting    *Acting    // its acting key; nil if it had none
	Shards    []int      // shards that it may serve, in order
}

// Lingers reports whether the member is a lingering one.
func (s *Snapshot) Lingers(m *Member) bool { return s.lingeringIndex(m) >= 0 }

// RegisteredMembers returns the members with keys in etcd, sorted by address: all that do not linger.
func (s *Snapshot) RegisteredMembers() []*Member {
	if len(s.Lingering) == 0 {
		return s.Members
	}
	return slices.DeleteFunc(slices.Clone(s.Members), s.Lingers)
}

// MembersChanged reports whether the members, lingering ones included, may differ between two snapshots.
func MembersChanged(before, now *Snapshot) bool {
	return !SameSlice(before.Members, now.Members) || !SameSlice(before.Lingering, now.Lingering)
}

func (s *Snapshot) lingeringIndex(m *Member) int {
	return slices.IndexFunc(s.Lingering, func(k LingeringState) bool { return k.Member == m })
}

// ShardWithheld reports whether a lingering member may serve the shard, whatever the present map says.
func (s *Snapshot) ShardWithheld(shard int) bool {
	return slices.ContainsFunc(s.Lingering, func(k LingeringState) bool {
		_, found := slices.BinarySearch(k.Shards, shard)
		return found
	})
}

// LostState returns the part of m's state in s that is missing in a later snapshot.
func (s *Snapshot) LostState(m *Member, later *Snapshot) LingeringState {
	k := LingeringState{Member: m, Shards: s.servedShards(m)}
	if m.KeyLease == 0 {
		return k
	}
	if c, _ := later.CandidateOn(m.KeyLease); c == nil {
		k.Candidate, _ = s.CandidateOn(m.KeyLease)
	}
	if later.ActingOn(m.KeyLease) == nil {
		k.Acting = s.ActingOn(m.KeyLease)
	}
	return k
}

// servedShards returns the shards that m may serve: those that the map assigns to it, and those that it has yet to
// release.
func (s *Snapshot) servedShards(m *Member) []int {
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

// WithLingering returns s with the state of k added where it is missing, and the member marked as lingering. s does not
// change.
func (s *Snapshot) WithLingering(k LingeringState) *Snapshot {
	next := *s
	if i, there := next.memberIndex(k.Member.Address); !there {
		next.Members = insertAt(next.Members, i, k.Member)
	}
	if k.Candidate != nil {
		if i, there := slices.BinarySearchFunc(next.Queue, k.Candidate, compareCandidates); !there {
			next.Queue = insertAt(next.Queue, i, k.Candidate)
		}
	}
	if k.Acting != nil && next.Acting == nil {
		next.Acting = k.Acting
	}
	if !next.Lingers(k.Member) {
		next.Lingering = insertAt(next.Lingering, len(next.Lingering), k)
	}
	return &next
}

// WithoutLingering returns s without k. State that has replaced that of k stays. s does not change.
func (s *Snapshot) WithoutLingering(k LingeringState) *Snapshot {
	next := *s
	if i, there := next.memberIndex(k.Member.Address); there && next.Members[i] == k.Member {
		next.Members = removeAt(next.Members, i)
	}
	if i := slices.Index(next.Queue, k.Candidate); k.Candidate != nil && i >= 0 {
		next.Queue = removeAt(next.Queue, i)
	}
	if k.Acting != nil && next.Acting == k.Acting {
		next.Acting = nil
	}
	if i := next.lingeringIndex(k.Member); i >= 0 {
		next.Lingering = removeAt(next.Lingering, i)
	}
	return &next
}

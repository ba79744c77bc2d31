package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// Candidate is one entry of the election queue.
type Candidate struct {
	Key            string
	KeyLease       int64 // lease id in the key; 0 if the key has none
	Lease          int64 // lease that the key is attached to; 0 if none
	Address        string
	CreateRevision int64 // order in the queue, and the token of its term
	ModRevision    int64
}

// Member is a registered node.
type Member struct {
	Address     string
	Incarnation int64 // CreateRevision of the node key
	ModRevision int64
	KeyLease    int64 // lease that the node key is attached to
	// Scatter is the hash of the address. In the order of these hashes, members at successive addresses, which may share
	// a rack, are mostly far apart.
	Scatter uint64
	Record
}

// ScatterOf returns the hash of an address. All releases must compute the same.
func ScatterOf(address string) uint64 {
	sum := sha256.Sum256([]byte(address))
	return binary.BigEndian.Uint64(sum[:])
}

// Acting is the acting leader in fallback.
type Acting struct {
	Address        string
	Lease          int64
	CreateRevision int64 // its token
}

// Request is the present request of an operator.
type Request struct {
	RequestRecord
	ModRevision int64
}

// Accusation is one present accusation.
type Accusation struct {
	Address, Accuser string
	AccusationRecord
	ModRevision int64
	Lease       int64
}

// Snapshot is the cluster's state at one etcd revision. It is immutable: readers must not write to its slices.
// A nil snapshot is not usable; a mirror publishes its first snapshot before it reports that it is ready.
type Snapshot struct {
	Keys Keys
	// ClusterID is etcd's own cluster id.
	ClusterID uint64
	// Revision is the etcd revision up to which the snapshot is known to be exact.
	Revision int64
	// Total counts the keys of the range in etcd, including foreign ones. Keys kept only in Lingering do not
	// count.
	Total int
	// Stale is set while the mirror rebuilds. The state was exact at Revision, but changes since may have been
	// missed.
	Stale bool
	// Members is sorted by address.
	Members []*Member
	// Lingering lists members that have lost their keys in etcd but may not have noticed yet. They stay in
	// Members, and their places in the queue or in fallback stay too, for a while.
	Lingering []LingeringState
	// Queue is sorted by CreateRevision: first come, first served.
	Queue []*Candidate
	// Acting is the acting leader's key, or nil if there is none.
	Acting *Acting
	// Request is the operator's request, or nil if there is none or it cannot be read.
	Request *Request
	// Accusations is sorted by address, then accuser.
	Accusations []*Accusation
	// Silences holds the watchers' marks about members that do not answer them, sorted by address, then
	// watcher.
	Silences []*Silence
	// Drains holds operators' requests about the shards of members, sorted by address.
	Drains []*Drain
	// ShardMap is the content of the shard map's key, or nil if there is none.
	ShardMap *ShardMap
	// Released holds the members' reports of released shards, sorted by address.
	Released []*ReleaseReport
	// Foreign lists keys of the range that are not Goverse's or that cannot be read, sorted by key. An
	// unreadable shard map is not among them; ShardMap.Err reports it.
	Foreign []ForeignKey
	// History counts how often the mirror has found another history than before, because etcd was restored from
	// a backup or replaced.
	History int
}

// AccuserAddress returns the address of the member that wrote the accusation, or "" if it is not a member: a
// process that takes over its own address accuses before it is registered.
func (s *Snapshot) AccuserAddress(a *Accusation) string {
	for _, m := range s.Members {
		if m.Address != a.Address && (m.InstanceID == a.Accuser || m.Address == a.Accuser) {
			return m.Address
		}
	}
	return ""
}

// MissesChange reports whether s misses a change, given a state of the range at a revision that s has not reached yet:
// its number of keys is total, and the last written of them was written at newest. If s misses a put that still
// counts, newest is larger than the revision of s. If it misses none, then all keys are as in s, and a missed
// deletion makes total differ.
func (s *Snapshot) MissesChange(newest int64, total int) bool {
	return newest > s.Revision || total != s.Total
}

// Leader is the leader at one revision. The zero Leader means that there is none.
type Leader struct {
	Address string
	// Token is the CreateRevision of the leading key.
	Token int64
	// Fallback is set for an acting leader.
	Fallback bool
	// Member is false for an outside candidate.
	Member bool
	// Lease is the lease of the leading key, 0 if it has none.
	Lease int64
}

// Leader returns the leader at this revision. It is the head of the queue, or the acting leader while the queue
// is empty. While the key of an acting leader still stands, a member at the head does not lead yet; an outside
// candidate does.
func (s *Snapshot) Leader() Leader {
	switch {
	case len(s.Queue) == 0 && s.Acting != nil:
		m := s.Member(s.Acting.Address)
		return Leader{Address: s.Acting.Address, Token: s.Acting.CreateRevision, Fallback: true,
			Member: m != nil && m.Lease == s.Acting.Lease, Lease: s.Acting.Lease}
	case len(s.Queue) > 0:
		head := s.Queue[0]
		m := s.MemberOf(head)
		if m != nil && s.Acting != nil {
			return Leader{}
		}
		return Leader{Address: head.Address, Token: head.CreateRevision, Member: m != nil, Lease: head.Lease}
	}
	return Leader{}
}

// Member returns the member at address, or nil if there is none.
func (s *Snapshot) Member(address string) *Member {
	if i, ok := s.memberIndex(address); ok {
		return s.Members[i]
	}
	return nil
}

// MembersWithServer returns the members that can be dialed, in order of addresses: all but those of an election only.
func (s *Snapshot) MembersWithServer() []*Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m *Member) bool { return m.ElectionOnly })
}

// MemberOf returns the member that owns the queue entry c, or nil for an outside candidate. The value of c only
// suggests the address; the lease decides.
func (s *Snapshot) MemberOf(c *Candidate) *Member {
	if c.KeyLease == 0 {
		return nil
	}
	if m := s.Member(c.Address); m != nil && m.Lease == c.KeyLease {
		return m
	}
	for _, m := range s.Members {
		if m.Lease == c.KeyLease {
			return m
		}
	}
	for _, k := range s.Lingering { // another process may be registered at its address
		if k.Member.Lease == c.KeyLease {
			return k.Member
		}
	}
	return nil
}

// CandidateOn returns the queue entry with that lease in its key, and its place in the queue; nil and -1 if there
// is none.
func (s *Snapshot) CandidateOn(lease int64) (*Candidate, int) {
	for i, c := range s.Queue {
		if c.KeyLease == lease {
			return c, i
		}
	}
	return nil, -1
}

// ActingOn returns the acting leader's key if it is on the given lease, otherwise nil.
func (s *Snapshot) ActingOn(lease int64) *Acting {
	if a := s.Acting; a != nil && a.Lease == lease {
		return a
	}
	return nil
}

// AccusationStands reports whether the accusation that accuser wrote at revision against the member at address still
// stands.
func (s *Snapshot) AccusationStands(address, accuser string, revision int64) bool {
	i, found := s.accusationIndex(address, accuser)
	return found && s.Accusations[i].ModRevision == revision
}

// QueuePlace caches the place of an entry in the queue. Places only get smaller, mostly by one, so a caller that
// looks at every change finds the entry at once. The zero value is ready to use. It is safe for concurrent use.
type QueuePlace struct{ i atomic.Int64 }

// Find returns the queue entry created at revision, or nil if there is none. If the entry has moved far, Find
// costs a binary search.
func (p *QueuePlace) Find(s *Snapshot, revision int64) *Candidate {
	last := int(p.i.Load())
	for i := min(last, len(s.Queue)-1); i >= max(0, last-1); i-- {
		if c := s.Queue[i]; c.CreateRevision == revision {
			p.i.Store(int64(i))
			return c
		}
	}
	i, found := slices.BinarySearchFunc(s.Queue, revision,
		func(c *Candidate, r int64) int { return cmp.Compare(c.CreateRevision, r) })
	if !found {
		return nil
	}
	p.i.Store(int64(i))
	return s.Queue[i]
}

// QueueHead returns the first entry of the queue, or nil if it is empty.
func (s *Snapshot) QueueHead() *Candidate {
	if len(s.Queue) == 0 {
		return nil
	}
	return s.Queue[0]
}

// SameSlice reports whether two lists of snapshots share their memory. Lists are never written to, so then nothing
// in them has changed in between.
func SameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

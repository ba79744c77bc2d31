package state

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/goverse/goverse/cluster/election"
)

// Candidate is one entry of the election queue.
type Candidate struct {
	Key            string
	KeyLease       int64 // the lease spelled in the key; 0 when it is no lease id
	Lease          int64 // the lease the key is attached to; 0 when none
	Address        string
	CreateRevision int64 // its place in the queue, and its token when it leads
	ModRevision    int64
}

// Member is a registered node.
type Member struct {
	Address     string
	Incarnation int64 // CreateRevision of the node key
	ModRevision int64
	KeyLease    int64 // the lease the node key is attached to
	Record
}

// Acting is the acting leader in fallback.
type Acting struct {
	Address        string
	Lease          int64
	CreateRevision int64 // its token
}

// Request is an operator's request as it stands.
type Request struct {
	RequestRecord
	ModRevision int64
}

// Accusation is one accusation as it stands.
type Accusation struct {
	Address, Accuser string
	AccusationRecord
	ModRevision int64
	Lease       int64
}

// Snapshot is the cluster's state at one etcd revision. It is immutable: read
// its slices, never write to them. The nil snapshot is not usable; a mirror
// publishes its first one before it says it is ready.
type Snapshot struct {
	Keys Keys
	// ClusterID is etcd's own cluster id.
	ClusterID uint64
	// Revision is the etcd revision up to which this is known to be exact.
	Revision int64
	// Total is how many keys the range has, also those that mean nothing here. What Lingering have
	// is not among them.
	Total int
	// Stale is true while the mirror rebuilds: the state was exact at Revision,
	// and may have moved since without being seen.
	Stale bool
	// Members are sorted by address.
	Members []*Member
	// Lingering are those of the members whose keys are gone from etcd, and who may not know it
	// yet: they, and their places in the queue or in fallback, are kept in view for a while.
	Lingering []Kept
	// Queue is sorted by CreateRevision: first come, first served.
	Queue []*Candidate
	// Acting is the acting leader's key, nil when there is none.
	Acting *Acting
	// Request is the operator's request, nil when there is none or it is unreadable.
	Request *Request
	// Accusations are sorted by address, then accuser.
	Accusations []*Accusation
	// Silences are what watchers say of members that do not answer them, sorted by address, then watcher.
	Silences []*Silence
	// Drains are operators' requests about the shards of members, sorted by address.
	Drains []*Drain
	// ShardMap is the shard map's key, nil when there is none.
	ShardMap *ShardMap
	// Released is what members have released, sorted by address.
	Released []*Released
	// Foreign are the keys of the range that are none of ours, or whose values cannot be read, sorted by key; the
	// shard map, which says so itself, is not among them.
	Foreign []Foreign
	// History counts how often the mirror found itself on another history than
	// before: etcd was restored from a backup, or replaced.
	History int
}

// AccuserAddress is that of the member which wrote the accusation, "" if it is none now: a process that
// takes over its own address accuses before it is registered.
func (s *Snapshot) AccuserAddress(a *Accusation) string {
	for _, m := range s.Members {
		if m.Address != a.Address && (m.InstanceID == a.Accuser || m.Address == a.Accuser) {
			return m.Address
		}
	}
	return ""
}

// Lacks reports whether s misses a change, up to a revision that s has not reached yet and at
// which the range had total keys, the last written of them at newest. A put that s misses and
// that still counts is newer than s; if there is none, all keys are as s has them, and one that was
// deleted is missing in the total.
func (s *Snapshot) Lacks(newest int64, total int) bool {
	return newest > s.Revision || total != s.Total
}

// Leader reports who leads at this revision: the head of the queue unless an
// acting leader's key still stands, for an elected leader waits until that is
// gone; in fallback the acting leader, while the queue is empty.
func (s *Snapshot) Leader() election.Leader {
	switch {
	case len(s.Queue) == 0 && s.Acting != nil:
		m := s.Member(s.Acting.Address)
		return election.Leader{Address: s.Acting.Address, Token: s.Acting.CreateRevision, Mode: election.ModeFallback,
			Member: m != nil && m.Lease == s.Acting.Lease, Lease: s.Acting.Lease}
	case len(s.Queue) > 0:
		head := s.Queue[0]
		m := s.MemberOf(head)
		if m != nil && s.Acting != nil {
			return election.Leader{Mode: election.ModeElection}
		}
		return election.Leader{Address: head.Address, Token: head.CreateRevision, Mode: election.ModeElection,
			Member: m != nil, Lease: head.Lease}
	}
	return election.Leader{Mode: election.ModeElection}
}

// Member is the member at address, nil when there is none.
func (s *Snapshot) Member(address string) *Member {
	if i, ok := s.memberIndex(address); ok {
		return s.Members[i]
	}
	return nil
}

// MemberOf is the member whose queue entry c is, nil for an outside candidate.
// The value names the address to look at; the lease decides.
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
	return nil
}

// Candidate is the queue entry spelled with the given lease and its place in
// the queue; nil and -1 when there is none.
func (s *Snapshot) Candidate(lease int64) (*Candidate, int) {
	for i, c := range s.Queue {
		if c.KeyLease == lease {
			return c, i
		}
	}
	return nil, -1
}

// ActingOn is the acting leader's key if it is on the given lease, nil if not.
func (s *Snapshot) ActingOn(lease int64) *Acting {
	if a := s.Acting; a != nil && a.Lease == lease {
		return a
	}
	return nil
}

// Accused reports whether the accusation of the member at address by accuser stands
// as it was written at revision.
func (s *Snapshot) Accused(address, accuser string, revision int64) bool {
	i, found := s.accusationIndex(address, accuser)
	return found && s.Accusations[i].ModRevision == revision
}

// Place remembers at which place of the queue an entry was found. Places only get
// smaller, and mostly by one, so that who looks at every change finds it at a
// glance. The zero value is ready; it is safe for concurrent use.
type Place struct{ i atomic.Int64 }

// Find is the queue entry created at revision, nil when there is none. Elsewhere
// than where it was last it costs a binary search.
func (p *Place) Find(s *Snapshot, revision int64) *Candidate {
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

// Head is the first in the queue, nil when it is empty.
func (s *Snapshot) Head() *Candidate {
	if len(s.Queue) == 0 {
		return nil
	}
	return s.Queue[0]
}

// Planner is the member whose duty planning is: the leader if it is a member;
// otherwise (an outside candidate leads) the first member in the queue. Nil when
// there is none.
func (s *Snapshot) Planner() *Member {
	if l := s.Leader(); l.Mode == election.ModeFallback && l.Member {
		return s.Member(l.Address)
	}
	for _, c := range s.Queue {
		if m := s.MemberOf(c); m != nil {
			return m
		}
	}
	return nil
}

// Same reports whether two lists of snapshots, which are never written to, are one: nothing that they list has
// changed in between.
func Same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

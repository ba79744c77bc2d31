package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// MemberState is a member's part in the election.
type MemberState string

// The member states.
const (
	MemberFollower  MemberState = "follower"  // registered, not queued
	MemberCandidate MemberState = "candidate" // waits in the queue
	MemberLeader    MemberState = "leader"
	MemberObserver  MemberState = "observer" // never stands for election
)

// MemberTable is the members as this node sees them, at one revision.
type MemberTable struct {
	Revision int64
	Members  []MemberRow // by address
}

// MemberRow is a member, and what others know of it.
type MemberRow struct {
	Member
	State MemberState
	// Place is its place in the queue from 1 up, 0 when it is not queued.
	Place int
	// SeenSince is when this node first saw this incarnation registered, by this node's clock; zero if it has just
	// come. etcd keeps no time of registration: of one that was there before this node, it is when this node came.
	SeenSince time.Time
	// Owned is how many shards the map gives it.
	Owned int
	// Suspected: another member says that its process is gone, and it has not refuted that.
	Suspected bool
	// Silent is for how long it has not answered those that watch it, as far as they have said so, and SilentTo how many
	// say so; both 0 while it answers. Its process may stand still. It is counted by this node's clock from when it
	// learned of that, and what the others said then.
	Silent   time.Duration
	SilentTo int
}

// MemberTable is this node's view of the members. It does not block. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) MemberTable() (MemberTable, error) {
	p, err := c.running()
	if err != nil {
		return MemberTable{}, err
	}
	return memberTable(p.mirror.Snapshot(), p.sightings.since, p.silences.of), nil
}

// memberTable is that of a snapshot; since is when a member was first seen, silent for how long it has been so.
func memberTable(s *state.Snapshot, since func(sighted) time.Time,
	silent func(*state.Snapshot, *state.Member) (time.Duration, int)) MemberTable {
	t := MemberTable{Revision: s.Revision, Members: []MemberRow{}}
	shards, _ := shardview.New(s) // without a map nobody owns any
	leader := s.Leader()
	for _, m := range s.Registered() {
		row := MemberRow{Member: memberOf(m), State: MemberFollower,
			SeenSince: since(sighted{m.Address, m.Incarnation}), Owned: shards.Owner(m.Address, m.Incarnation).Count}
		queued, place := s.Candidate(m.Lease)
		switch {
		case leader.Member && leader.Lease == m.Lease:
			row.State = MemberLeader
		case queued != nil:
			row.State = MemberCandidate
		case m.Observer:
			row.State = MemberObserver
		}
		row.Place = place + 1
		row.Suspected = slices.ContainsFunc(s.Accusations, func(a *state.Accusation) bool {
			return a.Address == m.Address && a.Incarnation == m.Incarnation
		})
		row.Silent, row.SilentTo = silent(s, m)
		t.Members = append(t.Members, row)
	}
	return t
}

// sighted is one incarnation of a member.
type sighted struct {
	address     string
	incarnation int64
}

// sightings are when the members that are registered were first seen. The zero value is ready.
type sightings struct {
	mu    sync.Mutex
	first map[sighted]time.Time
}

// follow keeps them until ctx ends.
func (l *sightings) follow(ctx context.Context, view *watchcache.Mirror) {
	sub := view.Subscribe(membersChanged)
	defer sub.Close()
	wait.Each(ctx, sub.C, func() {
		if s := view.Snapshot(); s != nil {
			l.saw(s, time.Now())
		}
	})
}

// saw forgets who is gone.
func (l *sightings) saw(s *state.Snapshot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := make(map[sighted]time.Time, len(s.Members))
	for _, m := range s.Registered() {
		who := sighted{m.Address, m.Incarnation}
		first[who] = now
		if at, before := l.first[who]; before {
			first[who] = at
		}
	}
	l.first = first
}

func (l *sightings) since(who sighted) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first[who]
}

package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/consensusmanager"
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

// MemberTable lists the members as this node sees them, at one revision.
type MemberTable struct {
	Revision int64       `json:"revision"`
	Members  []MemberRow `json:"members"` // by address
	// Format is the format of records and messages that the cluster may use: the newest that all members read. FormatBy
	// is the member that decides it, because it runs the oldest release.
	Format   int    `json:"format"`
	FormatBy string `json:"format_by"`
}

// MemberRow is a member, with what other nodes know about it.
type MemberRow struct {
	Member
	State MemberState `json:"state"`
	// Place is the member's place in the queue, counted from 1; 0 if it is not queued.
	Place int `json:"place"`
	// SeenSince is the time, by this node's clock, at which this node first saw this incarnation registered; zero
	// if it has just joined. etcd keeps no time of registration: for a member older than this node, SeenSince is
	// the time at which this node joined.
	SeenSince time.Time `json:"seen_since"`
	// Owned is the number of shards that the map assigns to the member.
	Owned int `json:"owned"`
	// Suspected is set while an accusation says that the member's process is gone and the member has not refuted
	// it.
	Suspected bool `json:"suspected"`
	// Silent is the time for which the member has not answered its watchers, according to them; its process may
	// stand still. SilentTo is the number of watchers that report it. Both are 0 while the member answers. Silent
	// is the time that a watcher reported, plus the time since this node learned of that report, by this node's
	// clock.
	Silent   time.Duration `json:"silent_ns"`
	SilentTo int           `json:"silent_to"`
}

// MemberTable returns this node's view of the members. It does not block. Errors are ErrNotStarted and
// ErrStopped.
func (c *Cluster) MemberTable() (MemberTable, error) {
	p, err := c.runningParts()
	if err != nil {
		return MemberTable{}, err
	}
	return newMemberTable(p.Mirror.Snapshot(), p.sightings.firstSeen, p.silences.silenceOf), nil
}

// newMemberTable builds the table of a snapshot. since returns when a member was first seen, silent how long it has
// not answered and to how many watchers.
func newMemberTable(s *state.Snapshot, since func(memberIncarnation) time.Time,
	silent func(*state.Snapshot, *state.Member) (time.Duration, int)) MemberTable {
	t := MemberTable{Revision: s.Revision, Members: []MemberRow{}, Format: s.Format().Format}
	if by := s.Format().DecidedBy; by != nil {
		t.FormatBy = by.Address
	}
	shards, _ := shardview.New(s) // without a map no member owns a shard
	leader := s.Leader()
	for _, m := range s.RegisteredMembers() {
		row := MemberRow{Member: consensusmanager.MemberOf(m), State: MemberFollower,
			SeenSince: since(memberIncarnation{m.Address, m.Incarnation}), Owned: shards.Owner(m.Address, m.Incarnation).Count}
		queued, place := s.CandidateOn(m.Lease)
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

// memberIncarnation identifies one incarnation of a member.
type memberIncarnation struct {
	address     string
	incarnation int64
}

// sightings remembers when each registered member was first seen. The zero value is ready.
type sightings struct {
	mu    sync.Mutex
	first map[memberIncarnation]time.Time
}

// followView keeps the sightings current until ctx ends.
func (l *sightings) followView(ctx context.Context, view *watchcache.Mirror) {
	sub := view.Subscribe(state.MembersChanged)
	defer sub.Close()
	wait.Each(ctx, sub.C, func() {
		if s := view.Snapshot(); s != nil {
			l.record(s, time.Now())
		}
	})
}

// record adds new members and forgets those that are gone.
func (l *sightings) record(s *state.Snapshot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := make(map[memberIncarnation]time.Time, len(s.Members))
	for _, m := range s.RegisteredMembers() {
		who := memberIncarnation{m.Address, m.Incarnation}
		first[who] = now
		if at, before := l.first[who]; before {
			first[who] = at
		}
	}
	l.first = first
}

func (l *sightings) firstSeen(who memberIncarnation) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first[who]
}

package consensusmanager

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// Member is a registered node, as described by its record in etcd.
type Member struct {
	Address string `json:"address"` // where other nodes reach it, or the ID of a member with ElectionOnly
	// Incarnation is the CreateRevision of the member's node key. It only grows, and distinguishes this process
	// from another one at the same address.
	Incarnation int64             `json:"incarnation"`
	InstanceID  string            `json:"instance_id"`  // random, one per process
	Hostname    string            `json:"hostname"`     // for display
	HTTPAddress string            `json:"http_address"` // where it serves HTTP, "" if nowhere
	Version     string            `json:"version"`      // of the program
	Labels      map[string]string `json:"labels"`
	Weight      int               `json:"weight"`
	// Shards is the number of shards it works with, 0 if it takes no part in them.
	Shards int `json:"shards"`
	// Observer members never stand for election.
	Observer bool `json:"observer"`
	// ElectionOnly members are processes of package leaderelection: they have no server and no shards.
	ElectionOnly bool `json:"election_only"`
	// Draining members give up their shards and get none.
	Draining bool `json:"draining"`
	// Stopping members are about to leave.
	Stopping bool `json:"stopping"`
	// ElectionFailed is the reason why the member cannot be a candidate, "" if it can.
	ElectionFailed string `json:"election_failed"`
	// RoundTrip is the duration of its requests to etcd, in coarse steps.
	RoundTrip time.Duration `json:"round_trip_ns"`
	// Goverse is the release of Goverse that it runs, "" if it publishes none.
	Goverse string `json:"goverse"`
	// OldestFormat and NewestFormat are the ends of the range of formats that it reads.
	OldestFormat int `json:"oldest_format"`
	NewestFormat int `json:"newest_format"`
}

// MemberOf returns the member that a snapshot's record describes. The caller owns it.
func MemberOf(m *state.Member) Member {
	out := Member{Address: m.Address, Incarnation: m.Incarnation, InstanceID: m.InstanceID, Hostname: m.Hostname,
		HTTPAddress: m.HTTPAddress, Version: m.Version, Labels: maps.Clone(m.Labels),
		Weight: max(m.Weight, 1), Shards: m.Shards,
		Observer: m.Observer, ElectionOnly: m.ElectionOnly, Draining: m.Draining, Stopping: m.Stopping,
		RoundTrip: m.Record.RoundTrip(), Goverse: m.Goverse, OldestFormat: m.ReadFormats().Oldest,
		NewestFormat: m.ReadFormats().Newest}
	if m.ElectionFailed {
		out.ElectionFailed = m.Reason
	}
	return out
}

func membersOf(s *state.Snapshot) []Member {
	registered := s.RegisteredMembers()
	out := make([]Member, len(registered))
	for i, m := range registered {
		out[i] = MemberOf(m)
	}
	return out
}

// Members returns the registered members as far as this node knows, by address. The caller owns the slice. It is nil
// while the node does not run.
func (m *ConsensusManager) Members() []Member {
	s := m.snapshot()
	if s == nil {
		return nil
	}
	return membersOf(s)
}

// Member returns the registered member at that address, as far as this node knows, or false if there is none.
func (m *ConsensusManager) Member(address string) (Member, bool) {
	s := m.snapshot()
	if s == nil {
		return Member{}, false
	}
	return memberAt(s, address)
}

// memberAt returns the registered member at an address by a snapshot.
func memberAt(s *state.Snapshot, address string) (Member, bool) {
	m := s.Member(address)
	if m == nil || s.Lingers(m) {
		return Member{}, false
	}
	return MemberOf(m), true
}

// WatchMembers returns a channel that delivers the members, by address, then again after every change: when a member
// joins, leaves or is lost, or its record changes. A slow receiver skips intermediate values and always gets the
// newest; it must not change the slice. The channel closes when ctx ends or the node stops, and never otherwise.
func (m *ConsensusManager) WatchMembers(ctx context.Context) (<-chan []Member, error) {
	return watchSnapshot(ctx, m, state.MembersChanged, membersOf,
		func(a, b []Member) bool { return reflect.DeepEqual(a, b) })
}

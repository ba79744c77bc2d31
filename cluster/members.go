package cluster

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
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
}

func memberOf(m *state.Member) Member {
	out := Member{Address: m.Address, Incarnation: m.Incarnation, InstanceID: m.InstanceID, Hostname: m.Hostname,
		HTTPAddress: m.HTTPAddress, Version: m.Version, Labels: maps.Clone(m.Labels),
		Weight: max(m.Weight, 1), Shards: m.Shards,
		Observer: m.Observer, ElectionOnly: m.ElectionOnly, Draining: m.Draining, Stopping: m.Stopping,
		RoundTrip: m.Record.RoundTrip()}
	if m.ElectionFailed {
		out.ElectionFailed = m.Reason
	}
	return out
}

func membersOf(s *state.Snapshot) []Member {
	registered := s.RegisteredMembers()
	out := make([]Member, len(registered))
	for i, m := range registered {
		out[i] = memberOf(m)
	}
	return out
}

// Members returns the registered nodes as far as this node knows, by address. The caller owns the slice. It is
// nil before Start has returned and after Stop. Members does not block.
func (c *Cluster) Members() []Member {
	p := c.parts.Load()
	if p == nil {
		return nil
	}
	return membersOf(p.Mirror.Snapshot())
}

// Member returns the registered node at that address, as far as this node knows. It returns false if there is
// none, before Start has returned and after Stop. It does not block.
func (c *Cluster) Member(address string) (Member, bool) {
	p := c.parts.Load()
	if p == nil {
		return Member{}, false
	}
	s := p.Mirror.Snapshot()
	m := s.Member(address)
	if m == nil || s.Lingers(m) {
		return Member{}, false
	}
	return memberOf(m), true
}

// WatchMembers returns a channel that delivers the members, by address, then again after every change: when a
// member joins, leaves or is lost, or its record changes. A slow receiver skips intermediate values and always
// gets the newest. The channel closes when ctx ends or the node stops, and never otherwise. Errors are
// ErrNotStarted and ErrStopped.
func (c *Cluster) WatchMembers(ctx context.Context) (<-chan []Member, error) {
	p, err := c.runningParts()
	if err != nil {
		return nil, err
	}
	now := func() []Member { return membersOf(p.Mirror.Snapshot()) }
	return watchValues(ctx, p, membersChanged, now, func(a, b []Member) bool { return reflect.DeepEqual(a, b) })
}

func membersChanged(before, now *state.Snapshot) bool {
	return !state.SameSlice(before.Members, now.Members) || !state.SameSlice(before.Lingering, now.Lingering)
}

// watchValues delivers the result of now, and again after each change of the snapshot that concerns it, until ctx ends
// or the node stops. A slow receiver gets the newest value. Values that are equal to the one delivered last are
// skipped.
func watchValues[T any](ctx context.Context, p *nodeParts, concerns func(before, now *state.Snapshot) bool,
	now func() T,
	equal func(a, b T) bool) (<-chan T, error) {
	out := make(chan T)
	started := p.goTracked(func(rest context.Context) {
		defer close(out)
		ctx, stop := wait.MergeContexts(ctx, rest)
		defer stop()
		sub := p.Mirror.Subscribe(concerns)
		defer sub.Close()
		wait.ForwardFunc(ctx, out, sub.C, now, equal)
	})
	if !started {
		return nil, ErrStopped
	}
	return out, nil
}

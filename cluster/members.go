package cluster

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Member is a registered node, as its record in etcd says it.
type Member struct {
	Address string // where other nodes reach it
	// Incarnation distinguishes this process from another one at the same address: the CreateRevision
	// of its node key. It only grows.
	Incarnation int64
	InstanceID  string // random, per process
	Hostname    string // for people
	HTTPAddress string // where it serves its status, "" if nowhere
	Version     string // the program's
	Labels      map[string]string
	Weight      int
	// Shards is how many shards it works with, 0 if it takes no part in them.
	Shards int
	// Observer members never stand for election.
	Observer bool
	// Draining members give their shards up and get none.
	Draining bool
	// Stopping members are about to leave.
	Stopping bool
	// ElectionFailed is why it cannot stand for election, "" if it can.
	ElectionFailed string
	// RoundTrip is how long its requests to etcd take, in coarse steps.
	RoundTrip time.Duration
}

func memberOf(m *state.Member) Member {
	out := Member{Address: m.Address, Incarnation: m.Incarnation, InstanceID: m.InstanceID, Hostname: m.Hostname,
		HTTPAddress: m.HTTPAddress, Version: m.Version, Labels: maps.Clone(m.Labels),
		Weight: max(m.Weight, 1), Shards: m.Shards,
		Observer: m.Observer, Draining: m.Draining, Stopping: m.Stopping, RoundTrip: m.Record.RoundTrip()}
	if m.ElectionFailed {
		out.ElectionFailed = m.Reason
	}
	return out
}

func membersOf(s *state.Snapshot) []Member {
	registered := s.Registered()
	out := make([]Member, len(registered))
	for i, m := range registered {
		out[i] = memberOf(m)
	}
	return out
}

// Members are the registered nodes as far as this node knows, by address: a copy, the caller's own.
// It is nil before Start has returned and after Stop. It does not block.
func (c *Cluster) Members() []Member {
	p := c.parts.Load()
	if p == nil {
		return nil
	}
	return membersOf(p.mirror.Snapshot())
}

// Member is the registered node at that address, as far as this node knows; false if there is none, before
// Start has returned and after Stop. It does not block.
func (c *Cluster) Member(address string) (Member, bool) {
	p := c.parts.Load()
	if p == nil {
		return Member{}, false
	}
	s := p.mirror.Snapshot()
	m := s.Member(address)
	if m == nil || s.Lingers(m) {
		return Member{}, false
	}
	return memberOf(m), true
}

// WatchMembers delivers the members, by address, and then again after every change: who joined, left
// or was lost, and what a record says. A slow receiver misses what was overtaken and always gets the
// newest. The channel closes when ctx ends or the node stops, never else. Errors are ErrNotStarted and
// ErrStopped.
func (c *Cluster) WatchMembers(ctx context.Context) (<-chan []Member, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	now := func() []Member { return membersOf(p.mirror.Snapshot()) }
	return watch(ctx, p, membersChanged, now, func(a, b []Member) bool { return reflect.DeepEqual(a, b) })
}

func membersChanged(before, now *state.Snapshot) bool {
	return !state.Same(before.Members, now.Members) || !state.Same(before.Lingering, now.Lingering)
}

// watch delivers what now returns, and again after each change of the snapshot that concerns it,
// until ctx ends or the node stops. A receiver that is slow gets the newest.
func watch[T any](ctx context.Context, p *parts, concerns func(before, now *state.Snapshot) bool, now func() T,
	equal func(a, b T) bool) (<-chan T, error) {
	out := make(chan T)
	started := p.goRest(func(rest context.Context) {
		defer close(out)
		ctx, stop := wait.Within(ctx, rest)
		defer stop()
		sub := p.mirror.Subscribe(concerns)
		defer sub.Close()
		wait.ForwardFunc(ctx, out, sub.C, now, equal)
	})
	if !started {
		return nil, ErrStopped
	}
	return out, nil
}

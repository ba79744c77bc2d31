package elections

import (
	"context"
	"slices"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/wait"
)

// Leader is who leads as far as this node knows: nobody between two leaders, and while this
// node is cut off from etcd and cannot say. It is this node if and only if IsLeader is true. Another one that has just
// come first may still wait for a former leader that may not know its lease is gone, before it leads. It does not
// block.
func (e *Election) Leader() election.Leader {
	if t := e.Term(); t != nil { // also before the watch shows its place
		return election.Leader{Address: e.all.cfg.Address, Token: t.token, Mode: election.ModeElection, Member: true,
			Lease: t.place.Lease()}
	}
	entries := e.follower.Queue().Entries()
	if len(entries) == 0 {
		return election.Leader{}
	}
	l := leaderOf(entries[0])
	if l.Member && l.Address == e.all.cfg.Address {
		return election.Leader{} // the own key stands for a moment after the term, or before it
	}
	return l
}

// leaderOf is the leader whose entry is the first.
func leaderOf(first order.Entry) election.Leader {
	return election.Leader{Address: first.Value, Token: first.Create, Mode: election.ModeElection, Member: !first.Foreign,
		Lease: first.Lease}
}

// Queue are the addresses of those who stand, who leads first, as far as this node knows.
func (e *Election) Queue() []string {
	entries := e.follower.Queue().Entries()
	out := make([]string, len(entries))
	for i, x := range entries {
		out[i] = x.Value
	}
	return out
}

// Subscription is a coalescing signal that an election's answers changed.
type Subscription struct {
	// C receives after a change of who leads, of the queue, or of this node's term; several
	// changes may make one signal. It has its first one already: receive, then ask.
	C <-chan struct{}

	e *Election
	c chan struct{}
}

// Subscribe returns a new subscription. It does not block.
func (e *Election) Subscribe() *Subscription {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	s := &Subscription{C: c, c: c, e: e}
	e.all.mu.Lock()
	e.subs = append(e.subs, s)
	e.all.mu.Unlock()
	return s
}

// Close ends the subscription. C is not closed.
func (s *Subscription) Close() {
	s.e.all.mu.Lock()
	defer s.e.all.mu.Unlock()
	s.e.subs = slices.DeleteFunc(s.e.subs, func(x *Subscription) bool { return x == s })
	if len(s.e.subs) == 0 {
		s.e.subs = nil
	}
}

// notify wakes all who subscribed. The lock is held.
func (e *Election) notify() {
	for _, s := range e.subs {
		select {
		case s.c <- struct{}{}:
		default:
		}
	}
}

// WaitForLeader blocks until there is a leader, or ctx ends. Errors are ctx's cause, lifecycle.ErrStopped
// and election.ErrClosed.
func (e *Election) WaitForLeader(ctx context.Context) (election.Leader, error) {
	var l election.Leader
	err := e.until(ctx, func() bool { l = e.Leader(); return l != election.Leader{} })
	return l, err
}

// until blocks until done returns true, the election is closed, or ctx ends.
func (e *Election) until(ctx context.Context, done func() bool) error {
	ctx, stop := wait.Within(ctx, e.all.life)
	defer stop()
	sub := e.Subscribe()
	defer sub.Close()
	released := false
	err := wait.Until(ctx, sub.C, func() bool {
		e.all.mu.Lock()
		released = e.released
		e.all.mu.Unlock()
		return released || done()
	})
	if released {
		return e.closed()
	}
	return err
}

// Watch delivers the present leader, and then every change of it; the zero Leader says that there
// is none. A slow receiver misses what was overtaken and always gets the newest. The channel
// closes when ctx ends, or the election or the node is closed, never else; one that is closed
// already is an error.
func (e *Election) Watch(ctx context.Context) (<-chan election.Leader, error) {
	return watch(ctx, e, e.Leader, func(a, b election.Leader) bool { return a == b })
}

// WatchErr delivers what Err returns, and then every change of it, as Watch does of the leader.
func (e *Election) WatchErr(ctx context.Context) (<-chan error, error) {
	return watch(ctx, e, e.Err, func(a, b error) bool { return a == b || a != nil && b != nil && a.Error() == b.Error() })
}

// watch delivers what now returns, and then every change of it, until ctx ends or the election is closed.
func watch[T any](ctx context.Context, e *Election, now func() T, equal func(a, b T) bool) (<-chan T, error) {
	life := e.lasts()
	if life.Err() != nil {
		return nil, context.Cause(life)
	}
	out := make(chan T)
	forward := func() {
		defer close(out)
		ctx, stop := wait.Within(ctx, life)
		defer stop()
		sub := e.Subscribe()
		defer sub.Close()
		wait.ForwardFunc(ctx, out, sub.C, now, equal)
	}
	if !e.all.start(forward) {
		return nil, election.ErrStopped
	}
	return out, nil
}

package elections

import (
	"context"
	"slices"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/wait"
)

// Leader returns the leader as far as this node knows. It is empty between two leaders and while this node is
// cut off from etcd. It names this node if and only if IsLeader is true. Another node that has just become
// first may not lead yet: it may still wait for a former leader that etcd took the lease from too early. Leader
// does not block.
func (e *Election) Leader() leaderelection.Leader {
	if t := e.Term(); t != nil { // also before the watch shows its key
		return leaderelection.Leader{Address: e.elections.cfg.Address, Token: t.token, Mode: leaderelection.ModeElection,
			Member: true,
			Lease:  t.grant.LeaseID()}
	}
	entries := e.follower.Queue().Entries()
	if len(entries) == 0 {
		return leaderelection.Leader{}
	}
	l := leaderOf(entries[0])
	if l.Member && l.Address == e.elections.cfg.Address {
		return leaderelection.Leader{} // the own key stands for a moment before or after the term
	}
	return l
}

// leaderOf returns the leader that owns the first entry.
func leaderOf(first order.Entry) leaderelection.Leader {
	return leaderelection.Leader{Address: first.Value, Token: first.CreateRevision, Mode: leaderelection.ModeElection,
		Member: !first.Foreign,
		Lease:  first.Lease}
}

// Queue returns the addresses of all candidates as far as this node knows, the leader first.
func (e *Election) Queue() []string {
	entries := e.follower.Queue().Entries()
	out := make([]string, len(entries))
	for i, x := range entries {
		out[i] = x.Value
	}
	return out
}

// Subscription receives a signal when the state of an election has changed.
type Subscription struct {
	// C receives after a change of the leader, of the queue, or of this node's term. Several changes may share
	// one signal. A first signal is there from the start: receive, then read the state.
	C <-chan struct{}

	e *Election
	c wait.Signal
}

// Subscribe returns a new subscription. It does not block.
func (e *Election) Subscribe() *Subscription {
	c := wait.NewSignal()
	c <- struct{}{}
	s := &Subscription{C: c, c: c, e: e}
	e.elections.mu.Lock()
	e.subscriptions = append(e.subscriptions, s)
	e.elections.mu.Unlock()
	return s
}

// Close ends the subscription. C is not closed.
func (s *Subscription) Close() {
	s.e.elections.mu.Lock()
	defer s.e.elections.mu.Unlock()
	s.e.subscriptions = slices.DeleteFunc(s.e.subscriptions, func(x *Subscription) bool { return x == s })
	if len(s.e.subscriptions) == 0 {
		s.e.subscriptions = nil
	}
}

// notifySubscribers signals all subscriptions. The caller holds Elections.mu.
func (e *Election) notifySubscribers() {
	for _, s := range e.subscriptions {
		s.c.Send()
	}
}

// WaitForLeader blocks until there is a leader or ctx ends. Errors are ctx's cause, lifecycle.ErrStopped and
// leaderelection.ErrClosed.
func (e *Election) WaitForLeader(ctx context.Context) (leaderelection.Leader, error) {
	var l leaderelection.Leader
	err := e.waitUntil(ctx, func() bool { l = e.Leader(); return l != leaderelection.Leader{} })
	return l, err
}

// waitUntil blocks until done returns true, the election is closed, or ctx ends.
func (e *Election) waitUntil(ctx context.Context, done func() bool) error {
	ctx, stop := wait.MergeContexts(ctx, e.elections.life)
	defer stop()
	sub := e.Subscribe()
	defer sub.Close()
	released := false
	err := wait.Until(ctx, sub.C, func() bool {
		e.elections.mu.Lock()
		released = e.released
		e.elections.mu.Unlock()
		return released || done()
	})
	if released {
		return e.closedError()
	}
	return err
}

// Watch delivers the current leader, then changes; the zero Leader means none. Slow receivers skip intermediate
// values and always get the newest. The channel closes when ctx ends or the election or the node is closed, and
// only then. If it is closed already, Watch returns an error.
func (e *Election) Watch(ctx context.Context) (<-chan leaderelection.Leader, error) {
	return watchValue(ctx, e, e.Leader, func(a, b leaderelection.Leader) bool { return a == b })
}

// WatchErr delivers the result of Err, then changes, as Watch does for the leader.
func (e *Election) WatchErr(ctx context.Context) (<-chan error, error) {
	return watchValue(ctx, e, e.Err, func(a, b error) bool {
		return a == b || a != nil && b != nil &&
			a.Error() == b.Error()
	})
}

// watchValue delivers the result of now, then changes, until ctx ends or the election is closed.
func watchValue[T any](ctx context.Context, e *Election, now func() T, equal func(a, b T) bool) (<-chan T, error) {
	life := e.lifeContext()
	if life.Err() != nil {
		return nil, context.Cause(life)
	}
	out := make(chan T)
	forward := func() {
		defer close(out)
		ctx, stop := wait.MergeContexts(ctx, life)
		defer stop()
		sub := e.Subscribe()
		defer sub.Close()
		wait.ForwardFunc(ctx, out, sub.C, now, equal)
	}
	if !e.elections.goTracked(forward) {
		return nil, leaderelection.ErrStopped
	}
	return out, nil
}

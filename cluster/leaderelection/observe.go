package leaderelection

import (
	"context"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// Leader returns the leader as far as this node knows. It is the zero value while this node's own session is
// not valid: the node is cut off then, and another one may lead. It names this node if and only if IsLeader is
// true. It does not block.
func (le *LeaderElection) Leader() Leader {
	return le.leaderIn(le.mirror.Snapshot())
}

func (le *LeaderElection) leaderIn(snap *state.Snapshot) Leader {
	s := le.keeper.Current()
	if snap == nil || s == nil || !s.Valid() {
		return Leader{}
	}
	l := snap.Leader()
	t := le.currentTerm()
	switch {
	case t != nil: // also while the snapshot does not show its key
		return Leader{Address: le.cfg.Address, Token: t.token, Mode: modeOf(t.acting), Member: true, Lease: int64(s.ID())}
	case l.Address == "":
		return Leader{}
	case l.Lease == int64(s.ID()), l.Member && l.Address == le.cfg.Address:
		// The own key stands for a moment before or after the term, or that of a former process with this name does.
		return Leader{}
	}
	return LeaderIn(snap)
}

// LeaderIn returns the leader that a snapshot of the cluster's keys shows.
func LeaderIn(snap *state.Snapshot) Leader {
	l := snap.Leader()
	return Leader{Address: l.Address, Token: l.Token, Mode: modeOf(l.Fallback), Member: l.Member, Lease: l.Lease}
}

// Duty returns guards that hold only while planning is this node's duty, for use in a transaction. ok is false
// if it is another member's ([state.Snapshot.Planner]). Duty does not block.
func (le *LeaderElection) Duty() ([]txn.Guard, bool) {
	if t := le.currentTerm(); t != nil {
		return txn.TermGuards(le.keys, t.acting, t.lease, t.token), true
	}
	snap, s := le.mirror.Snapshot(), le.keeper.Current()
	if snap == nil || s == nil || !s.Valid() {
		return nil, false
	}
	lease := int64(s.ID())
	if l := snap.Leader(); l.Address == "" || l.Member && l.Lease == lease {
		return nil, false
	}
	own, _ := snap.CandidateOn(lease)
	if first := snap.Planner(); own == nil || first == nil || first.Lease != lease {
		return nil, false
	}
	return txn.TermGuards(le.keys, false, lease, own.CreateRevision), true
}

// Subscription receives a signal when the state of the election has changed.
type Subscription struct {
	// C receives after a change of the leader, of this node's term, or of the failure of its election. Several
	// changes may share one signal. A first signal is there from the start: receive, then read the state.
	C <-chan struct{}

	le  *LeaderElection
	sub *watchcache.Subscription
}

// Subscribe returns a new subscription. It does not block.
func (le *LeaderElection) Subscribe() *Subscription {
	sub := le.mirror.Subscribe(func(before, now *state.Snapshot) bool { return before.Leader() != now.Leader() })
	s := &Subscription{C: sub.C, le: le, sub: sub}
	le.mu.Lock()
	le.subs[s] = struct{}{}
	le.mu.Unlock()
	return s
}

// Close ends the subscription. C is not closed.
func (s *Subscription) Close() {
	s.sub.Close()
	s.le.mu.Lock()
	delete(s.le.subs, s)
	s.le.mu.Unlock()
}

// WaitForLeader blocks until there is a leader. If ctx ends or the election is stopped first, it returns ctx's
// cause or ErrStopped.
func (le *LeaderElection) WaitForLeader(ctx context.Context) (l Leader, err error) {
	ctx, stop := wait.MergeContexts(ctx, le.ctx)
	defer stop()
	sub := le.Subscribe()
	defer sub.Close()
	err = wait.Until(ctx, sub.C, func() bool { l = le.Leader(); return l.Address != "" })
	return l, err
}

// Watch delivers the current leader, then changes; the zero Leader means none. Slow receivers skip intermediate
// values and always get the newest. The channel closes when ctx ends or the election is stopped, and only then.
// Watch returns ErrStopped if the election is stopped already.
func (le *LeaderElection) Watch(ctx context.Context) (<-chan Leader, error) {
	out := make(chan Leader)
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.stopped {
		return nil, ErrStopped
	}
	le.wg.Go(func() {
		defer close(out)
		le.forwardLeaders(ctx, out)
	})
	return out, nil
}

// forwardLeaders sends each new leader to out.
func (le *LeaderElection) forwardLeaders(ctx context.Context, out chan<- Leader) {
	ctx, stop := wait.MergeContexts(ctx, le.ctx)
	defer stop()
	sub := le.Subscribe()
	defer sub.Close()
	wait.Forward(ctx, out, sub.C, le.Leader)
}

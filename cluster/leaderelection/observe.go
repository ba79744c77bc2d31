package leaderelection

import (
	"context"

	"github.com/goverse/goverse/cluster/state"
)

// Leader is who leads as far as this node may say: the zero value, no leader,
// while its own session is not valid, for then it is cut off and the cluster may
// have moved on. It names this node if and only if IsLeader is true. It does not
// block.
func (le *LeaderElection) Leader() state.Leader {
	return le.leaderOf(le.mirror.Snapshot())
}

func (le *LeaderElection) leaderOf(snap *state.Snapshot) state.Leader {
	s := le.keeper.Current()
	if snap == nil || s == nil || !s.Valid() {
		return state.Leader{}
	}
	l := snap.Leader()
	t := le.Term()
	switch {
	case l.Address == "":
		return state.Leader{}
	case t != nil:
		return state.Leader{Address: le.cfg.Address, Token: t.token, Mode: t.mode, Member: l.Member, Lease: int64(s.ID())}
	case l.Lease == int64(s.ID()):
		return state.Leader{} // the own key stands for a moment after the term, or before it
	}
	return l
}

// GetLeaderNode is the leader's advertise address, "" when there is none. See
// Leader.
func (le *LeaderElection) GetLeaderNode() string { return le.Leader().Address }

// WaitForLeader blocks until there is a leader, or ctx ends, or the election is
// stopped.
func (le *LeaderElection) WaitForLeader(ctx context.Context) (state.Leader, error) {
	var l state.Leader
	stopped := false
	err := le.await(ctx, func() bool {
		le.askedLeader.Store(true)
		l, stopped = le.Leader(), le.stopped
		return l.Address != "" || stopped
	})
	if err == nil && l.Address == "" {
		err = ErrStopped
	}
	return l, err
}

// Watch delivers who leads now, and then every change of it; the zero Leader says
// that there is none. A slow receiver misses what was overtaken and always gets
// the newest. The channel closes when ctx ends or the election is stopped, never
// else.
func (le *LeaderElection) Watch(ctx context.Context) <-chan state.Leader {
	out := make(chan state.Leader)
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.stopped {
		close(out)
		return out
	}
	le.wg.Go(func() {
		defer close(out)
		le.forward(ctx, out)
	})
	return out
}

// forward sends each new leader.
func (le *LeaderElection) forward(ctx context.Context, out chan<- state.Leader) {
	var told state.Leader
	first := true
	for {
		changed := le.Changed()
		l := le.Leader()
		var send chan<- state.Leader
		if first || l != told {
			send = out
		}
		select {
		case send <- l:
			told, first = l, false
		case <-changed:
		case <-ctx.Done():
			return
		case <-le.ctx.Done():
			return
		}
	}
}

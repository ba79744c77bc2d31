package request

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// AwaitHandover requests a handover of leadership and waits for the outcome, which is the next leader. The
// request stands on a lease of its own and is withdrawn when AwaitHandover returns. It names the present term,
// so it never moves a later one. With RequestResign, address is not used, and a leader that is alone in the
// queue leads again with a new token. With RequestTransfer, a member that is about to queue, for example
// because it has just given way, is waited for.
//
// AwaitHandover blocks until m shows an outcome, or ctx or that lease ends. Set a deadline on ctx. In the
// latter two cases the error matches ErrNotMoved and the cause. Other errors are ErrNoLeader, ErrFallback,
// ErrOutsider, ErrNotMember and ErrNotCandidate of package lifecycle, and etcd's.
func AwaitHandover(ctx context.Context, client *clientv3.Client, m *watchcache.Mirror, kind state.RequestKind,
	address string) (state.Leader, error) {
	snap := m.Snapshot()
	if snap == nil {
		return state.Leader{}, lifecycle.ErrNoLeader
	}
	leader := snap.Leader()
	if err := checkMovable(leader); err != nil {
		return leader, err
	}
	req := state.RequestRecord{Kind: kind, Target: address}
	if kind == state.RequestTransfer {
		place, now, err := awaitTarget(ctx, m, address)
		if err != nil {
			return leader, fmt.Errorf("transfer to %s: %w", address, err)
		}
		snap, leader = now, now.Leader()
		if err := checkMovable(leader); err != nil {
			return leader, err
		}
		if place == 0 {
			return leader, nil
		}
		req.Incarnation = snap.Member(address).Incarnation
	}
	req.Token = leader.Token

	session, withdraw, err := openSession(ctx, client, snap.Keys)
	if err != nil {
		return leader, unwrittenError(ctx, err, lifecycle.ErrNotMoved)
	}
	defer withdraw()
	ctx, stop := wait.MergeContexts(ctx, session.Context())
	defer stop()
	resp, err := txn.Commit(ctx, client, txn.WriteRequest(snap.Keys, int64(session.ID()), snap.Queue[0].Key, req))
	if err != nil {
		return leader, unwrittenError(ctx, fmt.Errorf("ask the leader: %w", err), lifecycle.ErrNotMoved)
	}
	if !resp.Succeeded {
		return leader, fmt.Errorf("the leader changed meanwhile: %w", lifecycle.ErrNoLeader)
	}
	return awaitOutcome(ctx, m, leader, req)
}

// checkMovable returns the reason why l cannot be asked to give way, or nil if it can.
func checkMovable(l state.Leader) error {
	switch {
	case l.Address == "":
		return lifecycle.ErrNoLeader
	case l.Fallback:
		return lifecycle.ErrFallback
	case !l.Member:
		return lifecycle.ErrOutsider
	}
	return nil
}

// awaitTarget returns the place in the queue of the member at address, and the snapshot that shows it. A member
// that gave way is not queued for a moment, so awaitTarget waits for a member that may stand.
func awaitTarget(ctx context.Context, m *watchcache.Mirror, address string) (int, *state.Snapshot, error) {
	snap, err := m.Wait(ctx, func(s *state.Snapshot) bool {
		_, err := candidacy.TransferTarget(s, address, 0)
		return !errors.Is(err, lifecycle.ErrNotCandidate) || notCandidateReason(s.Member(address)) != nil ||
			s.Leader().Fallback
	})
	if err != nil {
		return 0, nil, fmt.Errorf("%w: that member is not in the queue yet: %w", lifecycle.ErrNotMoved, err)
	}
	place, err := candidacy.TransferTarget(snap, address, 0)
	if errors.Is(err, lifecycle.ErrNotCandidate) {
		if why := notCandidateReason(snap.Member(address)); why != nil {
			err = why
		}
	}
	return place, snap, err
}

// notCandidateReason returns the reason why m will not join the queue, or nil if it may.
func notCandidateReason(m *state.Member) error {
	why := ""
	switch {
	case m.Observer:
		why = "an observer"
	case m.Stopping:
		why = "it is stopping"
	case m.ElectionFailed:
		why = "its election failed"
	default:
		return nil
	}
	return fmt.Errorf("%w (%s): choose a candidate; goversed nodes shows them", lifecycle.ErrNotCandidate, why)
}

func awaitOutcome(ctx context.Context, m *watchcache.Mirror, before state.Leader,
	req state.RequestRecord) (state.Leader, error) {
	snap, err := m.Wait(ctx, func(s *state.Snapshot) bool {
		if req.Kind == state.RequestTransfer {
			if t := s.Member(req.Target); t == nil || t.Incarnation != req.Incarnation {
				return true
			}
		}
		l := s.Leader()
		return l.Address != "" && l.Token != before.Token
	})
	if err != nil {
		return before, fmt.Errorf("%w: %w", lifecycle.ErrNotMoved, err)
	}
	l := snap.Leader()
	switch {
	case req.Kind == state.RequestResign || l.Address == req.Target:
		return l, nil
	case snap.Member(req.Target) == nil:
		return l, fmt.Errorf("%s is gone: %w", req.Target, lifecycle.ErrNotMember)
	}
	return l, fmt.Errorf("%s leads instead: %w", l.Address, lifecycle.ErrNotMoved)
}

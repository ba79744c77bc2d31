package request

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// Errors of a drain in progress.
var (
	// ErrNotEmpty is returned when the node still has shards. It continues to drain.
	ErrNotEmpty = errors.New("the node is not empty yet")
	// ErrNoAnswer is returned when the node has not confirmed the request.
	ErrNoAnswer = errors.New("the node did not answer")
	// ErrUndone is returned when another request ended the drain.
	ErrUndone = errors.New("the drain was ended by another caller")
)

// DrainState is the progress of a request to drain a member, or to undo that.
type DrainState struct {
	Address     string
	Incarnation int64
	Draining    bool // false after an undo
	Changed     bool // whether the request changed Draining
	Before      int  // shards that it had at the time of the request; 0 for an undo
	Left        int  // shards not released yet, of those and of later ones
	Leader      bool // whether it leads; a drain does not change that
}

// AwaitDrain makes the request of [Drain] to the member at address and waits until it is fulfilled: the map
// assigns nothing to the member, and the member has released all its shards. With undo, it waits until the
// record no longer says Draining. m must have read the cluster. show is called at the beginning and whenever
// the number of remaining shards changes. The member keeps to the request until an undo or its end. The request
// stands on a lease of its own and is withdrawn when AwaitDrain returns.
//
// A request that could never be fulfilled fails with ErrRefused. If ctx ends, the error matches ctx's cause,
// and ErrNotEmpty if the member continues to drain, otherwise ErrNoAnswer; DrainState holds the progress.
// ErrNoAnswer is also returned if the request's lease is lost before the member has answered. Other errors are
// shardview.ErrUnknownNode, shardview.ErrNoMap, ErrMemberGone, ErrUndone, and etcd's.
func AwaitDrain(ctx context.Context, client *clientv3.Client, m *watchcache.Mirror, address string, undo bool,
	show func(left, before int)) (DrainState, error) {
	s := m.Snapshot()
	w, err := newDrainRequest(s, address, undo)
	if err != nil {
		return DrainState{}, err
	}
	session, withdraw, err := openSession(ctx, client, s.Keys)
	if err != nil {
		return DrainState{}, unwrittenError(ctx, err, ErrNoAnswer)
	}
	defer withdraw()
	if err := Drain(ctx, client, s.Keys, session.ID(), w.member, undo); err != nil {
		return DrainState{}, unwrittenError(ctx, err, ErrNoAnswer)
	}
	show(w.shardsLeft, w.shardsBefore)
	sub := m.Subscribe(nil)
	defer sub.Close()
	for lost := session.Done(); ; {
		select {
		case <-sub.C:
		case <-lost:
			if !w.answered {
				return w.progress(m.Snapshot()), w.unfinishedError(session.Err())
			}
			lost = nil // the member keeps to the request
		case <-ctx.Done():
			return w.progress(m.Snapshot()), w.unfinishedError(context.Cause(ctx))
		}
		s, last := m.Snapshot(), w.shardsLeft
		done, err := w.applySnapshot(s)
		if err != nil {
			return DrainState{}, err
		}
		if w.shardsLeft != last {
			show(w.shardsLeft, w.shardsBefore)
		}
		if done {
			return w.progress(s), nil
		}
	}
}

func (w *drainRequest) progress(s *state.Snapshot) DrainState {
	l := s.Leader()
	return DrainState{Address: w.member.Address, Incarnation: w.member.Incarnation, Draining: !w.undo,
		Changed: w.member.Draining == w.undo, Before: w.shardsBefore, Left: w.shardsLeft,
		Leader: l.Member && l.Lease == w.member.Lease}
}

// unfinishedError returns the error for a wait that ended with that cause.
func (w *drainRequest) unfinishedError(cause error) error {
	if !w.answered {
		return fmt.Errorf("%s: %w: it does not reach etcd, or is older than this command; no request is left behind (%w)",
			w.member.Address, ErrNoAnswer, cause)
	}
	why := "goversed shards shows whom they wait for"
	if w.stuck {
		why = "no other node can take them any more: start one"
	}
	return fmt.Errorf("%w: %s has %d of %d shards and goes on draining; %s; goversed drain --undo %s ends it (%w)",
		ErrNotEmpty, w.member.Address, w.shardsLeft, w.shardsBefore, why, w.member.Address, cause)
}

package request

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// The errors of a drain that began.
var (
	// ErrNotEmpty: the node has shards still. It goes on draining.
	ErrNotEmpty = errors.New("the node is not empty yet")
	// ErrNoAnswer: the node did not say that it does what was asked.
	ErrNoAnswer = errors.New("the node did not answer")
	// ErrUndone: somebody else ended the drain.
	ErrUndone = errors.New("somebody ended the drain meanwhile")
)

// Drained is how far a request to drain a member has come, or one to undo that.
type Drained struct {
	Address     string
	Incarnation int64
	Draining    bool // false after an undo
	Changed     bool // false if it was draining, or not, before
	Before      int  // shards that it had when it was asked; 0 for an undo
	Left        int  // of them, and of those that came meanwhile, what it has not released
	Leader      bool // which a drain does not alter
}

// AwaitDrain makes the request of [Drain] to the member at address and waits until it is fulfilled: the map names
// the member no more and it has released all that was its; or, with undo, it says that it takes shards again. m must
// have read the cluster. show is called at the beginning, and whenever the number of shards that are left changes. The
// member keeps to it until it is undone, or its end. The request stands on a lease of its own, and is withdrawn when
// AwaitDrain returns.
//
// Refused, with ErrRefused, what would never end. When ctx ends the error is ErrNotEmpty if the member goes on
// draining, and Drained says how far it has come, or else ErrNoAnswer; and it matches ctx's cause. It is ErrNoAnswer,
// too, when the request's lease is lost before the member has answered. Others are shardview.ErrUnknownNode,
// shardview.ErrNoMap, ErrMemberGone, ErrUndone, and etcd's.
func AwaitDrain(ctx context.Context, client *clientv3.Client, m *watchcache.Mirror, address string, undo bool,
	show func(left, before int)) (Drained, error) {
	s := m.Snapshot()
	w, err := newDrainRequest(s, address, undo)
	if err != nil {
		return Drained{}, err
	}
	session, withdraw, err := open(ctx, client, s.Keys)
	if err != nil {
		return Drained{}, unmade(ctx, err, ErrNoAnswer)
	}
	defer withdraw()
	if err := Drain(ctx, client, s.Keys, session.ID(), w.asked, undo); err != nil {
		return Drained{}, unmade(ctx, err, ErrNoAnswer)
	}
	show(w.left, w.before)
	sub := m.Subscribe(nil)
	defer sub.Close()
	for lost := session.Done(); ; {
		select {
		case <-sub.C:
		case <-lost:
			if !w.answered {
				return w.outcome(m.Snapshot()), w.unfinished(session.Err())
			}
			lost = nil // it keeps to it
		case <-ctx.Done():
			return w.outcome(m.Snapshot()), w.unfinished(context.Cause(ctx))
		}
		s, last := m.Snapshot(), w.left
		done, err := w.look(s)
		if err != nil {
			return Drained{}, err
		}
		if w.left != last {
			show(w.left, w.before)
		}
		if done {
			return w.outcome(s), nil
		}
	}
}

func (w *drainRequest) outcome(s *state.Snapshot) Drained {
	l := s.Leader()
	return Drained{Address: w.asked.Address, Incarnation: w.asked.Incarnation, Draining: !w.undo,
		Changed: w.asked.Draining == w.undo, Before: w.before, Left: w.left,
		Leader: l.Member && l.Lease == w.asked.Lease}
}

// unfinished is the error when the time is up, by that cause.
func (w *drainRequest) unfinished(cause error) error {
	if !w.answered {
		return fmt.Errorf("%s: %w: it does not reach etcd, or is older than this command; no request is left behind (%w)",
			w.asked.Address, ErrNoAnswer, cause)
	}
	why := "goversed shards shows whom they wait for"
	if w.stuck {
		why = "no other node can take them any more: start one"
	}
	return fmt.Errorf("%w: %s has %d of %d shards and goes on draining; %s; goversed drain --undo %s ends it (%w)",
		ErrNotEmpty, w.asked.Address, w.left, w.before, why, w.asked.Address, cause)
}

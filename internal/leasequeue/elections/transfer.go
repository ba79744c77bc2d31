package elections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/wait"
)

// Transfer hands the leadership over to the candidate at that address: those who wait before
// it go to the tail, the leader gives way when it is next, after its work, as by Resign. Any
// node may ask, also one that only follows. It blocks until that candidate leads as far as
// this node knows (then it returns nil, also if it did before), or it turns out to be
// impossible, or ctx ends: the request is then taken back, and who acted on it already has. A
// function in Lead must not wait for the end of its own term by it: the leader gives way when
// that function has returned, or was waited for long enough.
//
// Errors are ErrNoLeader, ErrNotCandidate, ErrOutsider and ErrPreferred, by what is known here
// and now; ErrNotMoved when another one leads, or ctx or this node's session ended; lifecycle.ErrStopped,
// election.ErrClosed, and what etcd refused.
func (e *Election) Transfer(ctx context.Context, address string) error {
	if err := e.transfer(ctx, address); err != nil {
		return fmt.Errorf("election %q: transfer to %s: %w", e.name, address, err)
	}
	return nil
}

func (e *Election) transfer(ctx context.Context, address string) error {
	q, err := e.known(ctx)
	if err != nil {
		return err
	}
	entries := q.Entries()
	target := -1
	for i, x := range entries {
		if x.Value == address {
			target = i // the last one, if an earlier process of that address has left its own behind
		}
	}
	switch {
	case len(entries) == 0:
		return election.ErrNoLeader
	case target < 0:
		return election.ErrNotCandidate
	case target == 0:
		return nil
	}
	return e.ask(ctx, q, address, order.Request{Token: entries[0].Create, Key: entries[target].Key,
		Create: entries[target].Create})
}

// RequestResign asks the leader to give way to the next, as by Resign; one that is alone leads
// again, with a new token. It blocks, and fails, as Transfer does.
func (e *Election) RequestResign(ctx context.Context) error {
	q, err := e.known(ctx)
	if err == nil && len(q.Entries()) == 0 {
		err = election.ErrNoLeader
	}
	if err == nil {
		err = e.ask(ctx, q, "", order.Request{Token: q.Entries()[0].Create})
	}
	if err != nil {
		return fmt.Errorf("election %q: ask the leader to resign: %w", e.name, err)
	}
	return nil
}

// ask puts the request down and waits for the outcome. It is a place in a queue of requests: it ends
// with the session, and is never written late.
func (e *Election) ask(ctx context.Context, q order.Queue, address string, request order.Request) error {
	if err := q.Check(request); err != nil {
		return err
	}
	ctx, stop := wait.Within(ctx, e.lasts())
	defer stop()
	sub := e.Subscribe()
	defer sub.Close()
	place, err := e.all.cfg.Queues.Enter(ctx, leasequeue.Want{Name: e.name, Value: request.Value(), Request: true})
	if err != nil {
		return e.notMoved(err)
	}
	defer e.takeBack(ctx, place)
	settled, gone := place.Settled(), (<-chan struct{})(nil)
	for {
		if done, err := e.outcome(address, request); done {
			return err
		}
		select {
		case <-sub.C:
		case <-settled:
			if err := place.Err(); errors.Is(err, leasequeue.ErrAgain) {
				return e.notMoved(err)
			} else if err != nil {
				return err
			}
			settled, gone = nil, place.Context().Done()
		case <-gone:
			return e.notMoved(context.Cause(place.Context()))
		case <-place.Lost():
			return e.notMoved(leasequeue.ErrAgain)
		case <-ctx.Done():
			return e.notMoved(context.Cause(ctx))
		}
	}
}

func (e *Election) notMoved(err error) error {
	if errors.Is(err, lifecycle.ErrStopped) || errors.Is(err, election.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", election.ErrNotMoved, err)
}

// outcome is what came of a request, if that is known.
func (e *Election) outcome(address string, request order.Request) (done bool, err error) {
	q := e.follower.Queue()
	if !q.Known() {
		return false, nil
	}
	entries, err := q.Entries(), q.Check(request)
	switch {
	case err == nil:
		return false, nil
	case request.Key == "" && errors.Is(err, order.ErrPassed):
		return len(entries) > 0, nil // it queues again in a moment
	case len(entries) > 0 && entries[0].Create == request.Create:
		return true, nil
	case !slices.ContainsFunc(entries, func(x order.Entry) bool { return x.Value == address }):
		return true, election.ErrNotCandidate
	case errors.Is(err, election.ErrNotCandidate):
		return true, fmt.Errorf("%w: it has queued anew meanwhile; ask again", election.ErrNotMoved)
	case errors.Is(err, order.ErrPassed):
		return true, fmt.Errorf("%w: %s leads instead", election.ErrNotMoved, entries[0].Value)
	}
	return true, err
}

// takeBack also when ctx has ended. If etcd does not answer in time it is done when it does, or
// with the session.
func (e *Election) takeBack(ctx context.Context, place *leasequeue.Entry) {
	place.Abandon()
	select {
	case <-place.Settled():
		if place.Err() != nil {
			return // there is none
		}
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.all.cfg.Queues.RequestTimeout())
	defer cancel()
	_ = place.Gone(ctx)
}

// known waits until this node knows the queue.
func (e *Election) known(ctx context.Context) (order.Queue, error) {
	var q order.Queue
	if err := e.until(ctx, func() bool { q = e.follower.Queue(); return q.Known() }); err != nil {
		return q, e.notMoved(err)
	}
	return q, context.Cause(e.lasts())
}

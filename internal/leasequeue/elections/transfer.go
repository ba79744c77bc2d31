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

// Transfer requests that the candidate at that address lead, and blocks until this node sees it lead. The
// candidates ahead of it move to the tail; the leader gives way after its work, as by Resign, once that
// candidate is next. Any node may request it, including observers. Transfer returns nil if the candidate leads
// already. If the request becomes impossible or ctx ends, the request is withdrawn, but candidates that have
// acted on it stay where they are. A function in Lead must not call Transfer to end its own term: the leader
// gives way only after that function has returned or WorkTimeout has passed.
//
// By what is known here and now, it returns ErrNoLeader, ErrNotCandidate, ErrOutsider or ErrPreferred. It
// returns ErrNotMoved if another candidate leads, or ctx or this node's session ends; and lifecycle.ErrStopped,
// election.ErrClosed, or etcd's error.
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
			target = i // the last one: an earlier process at the address may have left an entry
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

// RequestResign requests that the leader give way to the next candidate, as by Resign. A leader without other
// candidates leads again, with a new token. It blocks and fails as Transfer does.
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

// ask stores the request and waits for the outcome. The request is an entry in a queue of requests, so it ends
// with the session and is never written late.
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
	settled, gone := place.Decided(), (<-chan struct{})(nil)
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

// outcome returns the outcome of a request if it is known.
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
		return len(entries) > 0, nil // the leader queues again in a moment
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

// takeBack withdraws the request, even if ctx has ended. If etcd does not answer in time, the request is
// withdrawn when it does, or ends with the session.
func (e *Election) takeBack(ctx context.Context, place *leasequeue.Entry) {
	place.Abandon()
	select {
	case <-place.Decided():
		if place.Err() != nil {
			return // there is no entry
		}
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.all.cfg.Queues.RequestTimeout())
	defer cancel()
	_ = place.Gone(ctx)
}

// known blocks until this node knows the queue.
func (e *Election) known(ctx context.Context) (order.Queue, error) {
	var q order.Queue
	if err := e.until(ctx, func() bool { q = e.follower.Queue(); return q.Known() }); err != nil {
		return q, e.notMoved(err)
	}
	return q, context.Cause(e.lasts())
}

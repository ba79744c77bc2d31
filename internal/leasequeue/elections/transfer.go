package elections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/leaderelection"
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
// leaderelection.ErrClosed, or etcd's error.
func (e *Election) Transfer(ctx context.Context, address string) error {
	if err := e.requestTransfer(ctx, address); err != nil {
		return fmt.Errorf("election %q: transfer to %s: %w", e.name, address, err)
	}
	return nil
}

func (e *Election) requestTransfer(ctx context.Context, address string) error {
	q, err := e.awaitQueue(ctx)
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
		return leaderelection.ErrNoLeader
	case target < 0:
		return leaderelection.ErrNotCandidate
	case target == 0:
		return nil
	}
	return e.sendRequest(ctx, q, address, order.Request{Token: entries[0].CreateRevision, TargetKey: entries[target].Key,
		TargetRevision: entries[target].CreateRevision})
}

// RequestResign requests that the leader give way to the next candidate, as by Resign. A leader without other
// candidates leads again, with a new token. It blocks and fails as Transfer does.
func (e *Election) RequestResign(ctx context.Context) error {
	q, err := e.awaitQueue(ctx)
	if err == nil && len(q.Entries()) == 0 {
		err = leaderelection.ErrNoLeader
	}
	if err == nil {
		err = e.sendRequest(ctx, q, "", order.Request{Token: q.Entries()[0].CreateRevision})
	}
	if err != nil {
		return fmt.Errorf("election %q: ask the leader to resign: %w", e.name, err)
	}
	return nil
}

// sendRequest stores the request and waits for the outcome. The request is an entry in a queue of requests, so it ends
// with the session and is never written late.
func (e *Election) sendRequest(ctx context.Context, q order.Queue, address string, request order.Request) error {
	if err := q.CheckRequest(request); err != nil {
		return err
	}
	ctx, stop := wait.MergeContexts(ctx, e.lifeContext())
	defer stop()
	sub := e.Subscribe()
	defer sub.Close()
	place, err := e.elections.cfg.Queues.Enter(ctx, leasequeue.EntrySpec{Name: e.name, Value: request.Encode(),
		Request: true})
	if err != nil {
		return e.notMovedError(err)
	}
	defer e.withdrawRequest(ctx, place)
	decided, granted := place.Decided(), context.Background() // ends with the grant, once there is one
	for {
		if done, err := e.requestOutcome(address, request); done {
			return err
		}
		select {
		case <-sub.C:
		case <-decided:
			grant, err := place.Outcome()
			switch {
			case errors.Is(err, leasequeue.ErrEntryLost):
				return e.notMovedError(err)
			case err != nil:
				return err
			}
			decided, granted = nil, grant.Context()
		case <-granted.Done():
			return e.notMovedError(context.Cause(granted))
		case <-place.SessionContext().Done():
			return e.notMovedError(leasequeue.ErrEntryLost)
		case <-ctx.Done():
			return e.notMovedError(context.Cause(ctx))
		}
	}
}

func (e *Election) notMovedError(err error) error {
	if errors.Is(err, lifecycle.ErrStopped) || errors.Is(err, leaderelection.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", leaderelection.ErrNotMoved, err)
}

// requestOutcome returns the outcome of a request if it is known.
func (e *Election) requestOutcome(address string, request order.Request) (done bool, err error) {
	q := e.follower.Queue()
	if !q.Known() {
		return false, nil
	}
	entries, err := q.Entries(), q.CheckRequest(request)
	switch {
	case err == nil:
		return false, nil
	case request.TargetKey == "" && errors.Is(err, order.ErrLeaderChanged):
		return len(entries) > 0, nil // the leader queues again in a moment
	case len(entries) > 0 && entries[0].CreateRevision == request.TargetRevision:
		return true, nil
	case !slices.ContainsFunc(entries, func(x order.Entry) bool { return x.Value == address }):
		return true, leaderelection.ErrNotCandidate
	case errors.Is(err, leaderelection.ErrNotCandidate):
		return true, fmt.Errorf("%w: it has queued anew meanwhile; ask again", leaderelection.ErrNotMoved)
	case errors.Is(err, order.ErrLeaderChanged):
		return true, fmt.Errorf("%w: %s leads instead", leaderelection.ErrNotMoved, entries[0].Value)
	}
	return true, err
}

// withdrawRequest withdraws the request, even if ctx has ended. If etcd does not answer in time, the request is
// withdrawn when it does, or ends with the session.
func (e *Election) withdrawRequest(ctx context.Context, place *leasequeue.Entry) {
	place.Release()
	if _, err := place.Outcome(); err != nil {
		return // there is no entry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.elections.cfg.Queues.RequestTimeout())
	defer cancel()
	_ = place.AwaitDeletion(ctx)
}

// awaitQueue blocks until this node knows the queue, and while the queue shows this node first although it does not
// lead: its former entry is deleted or about to be, or its term has not begun yet.
func (e *Election) awaitQueue(ctx context.Context) (order.Queue, error) {
	var q order.Queue
	err := e.waitUntil(ctx, func() bool {
		q = e.follower.Queue()
		entries, t := q.Entries(), e.Term()
		return q.Known() && (len(entries) == 0 || entries[0].Foreign || entries[0].Value != e.elections.cfg.Address ||
			t != nil && t.token == entries[0].CreateRevision)
	})
	if err != nil {
		return q, e.notMovedError(err)
	}
	return q, context.Cause(e.lifeContext())
}

package elections

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue"
)

// Resign ends this node's term. It waits for the term's functions, up to WorkTimeout, and queues the node again
// at the tail. It blocks until the entry is released or ctx ends; the entry is then released as soon as etcd
// answers. The error is ErrNotLeader if this node does not lead, ctx's cause, or etcd's if it refuses the
// release. In the last case no other node leads until the session ends or etcd allows the release, which is
// retried every third of a TTL.
func (e *Election) Resign(ctx context.Context) error {
	place := e.resignTerm()
	if place == nil {
		return fmt.Errorf("election %q: %w", e.name, leaderelection.ErrNotLeader)
	}
	return e.awaitRelease(ctx, place)
}

// resignTerm ends the present term and returns its place, or nil if there is none.
func (e *Election) resignTerm() *queuePlace {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	t := e.term.Load()
	if t == nil || t.grant.EndCause() != nil {
		return nil
	}
	e.candidate = e.candidate.Resign()
	e.elections.markDirty(e)
	return e.place
}

// Withdraw ends this node's candidacy. A term ends as by Resign. The node continues to follow the election.
// Withdraw blocks as Resign does.
func (e *Election) Withdraw(ctx context.Context) error {
	return e.awaitRelease(ctx, e.endCandidacy(leaderelection.ErrWithdrawn))
}

// Close closes the election for all its users in this process. A term ends as by Withdraw. Then the node stops
// following the election: Leader is empty, the channels of Watch close, and blocked calls fail with
// leaderelection.ErrClosed, except Lead, which fails with ErrWithdrawn or ErrObserver as after Withdraw. Call Stand
// or Observe to use the election again. If that happens while Close waits, the election stays open as that call
// requested. Close blocks as Resign does. If it fails, nothing is closed, but this node has withdrawn.
func (e *Election) Close(ctx context.Context) error {
	e.elections.mu.Lock()
	e.wanted = false
	e.elections.mu.Unlock()
	if err := e.Withdraw(ctx); err != nil {
		return err
	}
	if e.elections.dropElection(e) {
		e.stopFollowing()
	}
	return nil
}

// Unobserve undoes one Observe. After the last one the election is closed, unless this node is a candidate. It
// does not block.
func (e *Election) Unobserve() {
	e.elections.mu.Lock()
	e.observers--
	if c := e.candidate; !c.WantsToLead || c.WithdrawReason != nil { // otherwise the candidacy keeps it open
		e.wanted = false
	}
	e.elections.mu.Unlock()
	if e.elections.dropElection(e) {
		e.stopFollowing()
	}
}

func (e *Election) stopFollowing() {
	e.elections.mu.Lock()
	e.released = true
	end := e.endLife
	e.notifySubscribers()
	e.elections.mu.Unlock()
	if end != nil {
		end(e.closedError())
	}
	e.follower.Stop()
}

func (e *Election) closedError() error {
	return fmt.Errorf("election %q: %w", e.name, leaderelection.ErrClosed)
}

// lifeContext returns a context that ends when the election is closed.
func (e *Election) lifeContext() context.Context {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	if e.life == nil {
		e.life, e.endLife = context.WithCancelCause(e.elections.life)
		if e.released {
			e.endLife(e.closedError()) // nothing depends on it yet
		}
	}
	return e.life
}

// awaitRelease waits until the place is released. nil means that there is none.
func (e *Election) awaitRelease(ctx context.Context, place *queuePlace) error {
	if place == nil {
		return nil
	}
	sub := e.Subscribe()
	defer sub.Close()
	for {
		x, still := e.holdsPlace(place)
		switch {
		case !still && x == nil: // there was no session
			return nil
		case !still:
			return x.AwaitDeletion(ctx)
		}
		var lost <-chan struct{}
		if x != nil {
			lost = x.SessionContext().Done()
		}
		select {
		case <-sub.C:
		case <-lost:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdsPlace returns the entry of the place, and reports whether this node still has the place.
func (e *Election) holdsPlace(place *queuePlace) (x *leasequeue.Entry, still bool) {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	return place.entry, e.place == place
}

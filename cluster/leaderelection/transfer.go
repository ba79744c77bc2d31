package leaderelection

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Transfer requests that the member at address lead, and blocks until it does. The candidates ahead of it let
// it pass, the leader last. Any member may request it. Transfer returns nil if that member leads already. It
// also returns when the transfer turns out to be impossible, with ErrNotMoved when ctx ends, and with
// ErrStopped when the election is stopped. Set a deadline on ctx. A member that is about to queue, for example
// because it has just given way, is waited for.
func (le *LeaderElection) Transfer(ctx context.Context, address string) error {
	return le.submitRequest(ctx, state.RequestTransfer, address)
}

// RequestResign requests that the leader give way to the next candidate, as by Resign. A leader without other
// candidates leads again, with a new token. Any member may request it. It blocks and fails as Transfer does.
func (le *LeaderElection) RequestResign(ctx context.Context) error {
	return le.submitRequest(ctx, state.RequestResign, "")
}

func (le *LeaderElection) submitRequest(ctx context.Context, kind state.RequestKind, address string) error {
	left, ok := le.joinTracked()
	if !ok {
		return ErrStopped
	}
	defer left()
	s := le.keeper.Current()
	if s == nil || !s.Valid() {
		return ErrNoLeader
	}
	ctx, stop := wait.MergeContexts(ctx, le.ctx)
	defer stop()
	if err := le.awaitOwnTerm(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotMoved, err)
	}
	if _, err := request.AwaitHandover(ctx, le.cfg.Client, le.mirror, kind, address); err != nil {
		return err
	}
	return le.awaitOwnTerm(ctx) // the next leader may be this member
}

// awaitOwnTerm blocks while the snapshot shows this member as the leader although it does not lead: its former key is
// deleted or about to be, or its term has not begun yet.
func (le *LeaderElection) awaitOwnTerm(ctx context.Context) error {
	sub := le.Subscribe()
	defer sub.Close()
	return wait.Until(ctx, sub.C, func() bool {
		snap, t := le.mirror.Snapshot(), le.term.Load()
		if snap == nil {
			return true
		}
		l := snap.Leader()
		return !l.Member || l.Address != le.cfg.Address || t != nil && t.token == l.Token
	})
}

// joinTracked makes Stop wait until left is called, so that the caller can withdraw its request. The caller must end
// with le.ctx. ok is false once the election is being stopped.
func (le *LeaderElection) joinTracked() (left func(), ok bool) {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.stopped {
		return nil, false
	}
	le.wg.Add(1)
	return le.wg.Done, true
}

package leaderelection

import (
	"context"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Transfer hands leadership over to the member at address: those ahead of it in
// the queue let it pass, the leader last. Any member may ask. It blocks until
// that member leads (then it returns nil, also if it did before), or it turns
// out to be impossible, or ctx ends (ErrNotMoved) or the election is stopped
// (ErrStopped); give ctx a deadline. A member that is about to queue, as one that
// has just given way is, is waited for.
func (le *LeaderElection) Transfer(ctx context.Context, address string) error {
	return le.ask(ctx, state.RequestTransfer, address)
}

// RequestResign asks the leader to give way to the next in the queue, as by Resign; one that is alone leads
// again, with a new token. Any member may ask. It blocks, and fails, as Transfer does.
func (le *LeaderElection) RequestResign(ctx context.Context) error {
	return le.ask(ctx, state.RequestResign, "")
}

func (le *LeaderElection) ask(ctx context.Context, kind state.RequestKind, address string) error {
	left, ok := le.join()
	if !ok {
		return election.ErrStopped
	}
	defer left()
	s := le.keeper.Current()
	if s == nil || !s.Valid() {
		return election.ErrNoLeader
	}
	ctx, stop := wait.Within(ctx, le.ctx)
	defer stop()
	_, err := request.AwaitHandover(ctx, le.cfg.Client, le.mirror, kind, address)
	return err
}

// join has Stop wait until the caller, which ends with le.ctx, calls left: so that a request is withdrawn. It does not
// once the election is being stopped.
func (le *LeaderElection) join() (left func(), ok bool) {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.stopped {
		return nil, false
	}
	le.wg.Add(1)
	return le.wg.Done, true
}

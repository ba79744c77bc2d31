package leaderelection

import (
	"context"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/request"
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
	s := le.keeper.Current()
	if s == nil || !s.Valid() {
		return election.ErrNoLeader
	}
	ctx, stop := wait.Within(ctx, le.ctx)
	defer stop()
	_, err := request.Ask(ctx, le.cfg.Client, le.mirror, s.ID(), state.RequestTransfer, address)
	return err
}

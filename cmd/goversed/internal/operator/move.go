package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
)

// Outcome holds the leaders after and before a request.
type Outcome struct {
	LeaderID         string `json:"leader_id"`
	Term             int64  `json:"term"` // the same number as Token
	Token            int64  `json:"token"`
	PreviousLeaderID string `json:"previous_leader_id"`
	PreviousToken    int64  `json:"previous_token"`
	Moved            bool   `json:"moved"` // whether another node leads
}

// Resign asks the leader to give way to the next candidate, and blocks until there is a leader with a new
// token. That is the same node again if it is alone. Resign returns ErrNoNodes and the errors of Read and
// request.AwaitHandover. When timeout has passed, the error is leaderelection.ErrNotMoved, and the request is
// withdrawn.
func (o *Operator) Resign(ctx context.Context, timeout time.Duration) (Outcome, error) {
	return o.requestMove(ctx, timeout, state.RequestResign, "")
}

// Transfer asks for the leadership to move to the node at address, and blocks until that node leads. It is no
// error if it leads already. Transfer returns the errors of Resign.
func (o *Operator) Transfer(ctx context.Context, timeout time.Duration, address string) (Outcome, error) {
	return o.requestMove(ctx, timeout, state.RequestTransfer, address)
}

func (o *Operator) requestMove(ctx context.Context, timeout time.Duration, kind state.RequestKind,
	address string) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, end, err := o.openMirror(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer end()
	s := m.Snapshot()
	if len(s.Members) == 0 && len(s.Queue) == 0 {
		return Outcome{}, o.explainNoNodes(ctx)
	}
	before := s.Leader()
	after, err := request.AwaitHandover(ctx, o.client, m, kind, address)
	switch {
	case errors.Is(err, leaderelection.ErrNotMoved) && ctx.Err() != nil:
		return Outcome{}, fmt.Errorf("%w; no request is left behind, look at goversed status or give more --timeout than %v",
			err, timeout)
	case err != nil:
		return Outcome{}, o.explain(ctx, err)
	}
	return Outcome{LeaderID: after.Address, Term: after.Token, Token: after.Token,
		PreviousLeaderID: before.Address, PreviousToken: before.Token, Moved: after.Address != before.Address}, nil
}

package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/once"
)

// TransferRequest is the body of calls that transfer leadership.
type TransferRequest struct {
	To string `json:"to"` // advertise address of the new leader
}

// Moved is the response to a resignation or a transfer: the current and the previous leader.
type Moved struct {
	LeaderID         string `json:"leader_id"` // "" if there was none when the call's time was up
	Token            int64  `json:"token"`
	PreviousLeaderID string `json:"previous_leader_id"`
	PreviousToken    int64  `json:"previous_token"`
	Moved            bool   `json:"moved"` // the leader is another one than before, or none yet
}

func newMoved(before, now leaderelection.Leader) Moved {
	return Moved{LeaderID: now.Address, Token: now.Token, PreviousLeaderID: before.Address, PreviousToken: before.Token,
		Moved: now.Address != before.Address}
}

// Checked is the response to a caller that may make admin calls.
type Checked struct {
	NodeID string `json:"node_id"` // advertise address of this node
	Caller string `json:"caller"`  // the caller's name in the log
}

// checkCaller changes nothing. It lets a caller verify its credentials.
func (s *adminCalls) checkCaller(_ context.Context, r *adminRequest) (any, error) {
	if err := r.decodeBody(&struct{}{}); err != nil {
		return nil, err
	}
	return Checked{NodeID: s.nodeID, Caller: r.caller}, nil
}

func (s *adminCalls) resignLeader(ctx context.Context, r *adminRequest) (any, error) {
	if err := r.decodeBody(&struct{}{}); err != nil {
		return nil, err
	}
	before := s.c.Leader()
	return s.awaitLeader(ctx, before, s.c.RequestResign(ctx))
}

// awaitLeader returns the result of a request. The new leader may be about to lead, so afterwards waits for it.
func (s *adminCalls) awaitLeader(ctx context.Context, before leaderelection.Leader, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	now, err := s.c.WaitForLeader(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return newMoved(before, now), nil
}

// readTarget reads the requested new leader from the body.
func readTarget(r *adminRequest) (to string, err error) {
	var body TransferRequest
	if err = r.decodeBody(&body); err == nil && body.To == "" {
		err = missingFieldError("to", "the address of the node that is to lead, as /cluster/nodes has it")
	}
	return body.To, err
}

func (s *adminCalls) transferLeader(ctx context.Context, r *adminRequest) (any, error) {
	to, err := readTarget(r)
	if err != nil {
		return nil, err
	}
	before := s.c.Leader()
	return s.awaitLeader(ctx, before, s.c.Transfer(ctx, to))
}

func (s *adminCalls) resignElection(ctx context.Context, r *adminRequest) (any, error) {
	if err := r.decodeBody(&struct{}{}); err != nil {
		return nil, err
	}
	return s.moveElection(ctx, r.name, func(e *cluster.Election) error { return e.RequestResign(ctx) })
}

func (s *adminCalls) transferElection(ctx context.Context, r *adminRequest) (any, error) {
	to, err := readTarget(r)
	if err != nil {
		return nil, err
	}
	return s.moveElection(ctx, r.name, func(e *cluster.Election) error { return e.Transfer(ctx, to) })
}

// moveElection calls ask with a named election, and reports its leaders before and after.
func (s *adminCalls) moveElection(ctx context.Context, name string, ask func(*cluster.Election) error) (any, error) {
	before, err := s.c.Elections().Look(ctx, name)
	if err != nil {
		return nil, err
	}
	e, err := s.c.Elections().Observe(name)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if err := ask(e); err != nil {
		return nil, err
	}
	now, err := s.c.Elections().Look(ctx, name)
	if err != nil && !errors.Is(err, leaderelection.ErrNoLeader) {
		return nil, err
	}
	return newMoved(before.Leader, now.Leader), nil
}

// DrainRequest is the body of drain and undrain.
type DrainRequest struct {
	Node string `json:"node"` // advertise address
}

// Drained is the response to drain and undrain. With status 202 the node goes on draining while it has shards;
// /cluster/nodes shows the progress.
type Drained struct {
	Address      string `json:"address"`
	Incarnation  int64  `json:"incarnation"`
	Draining     bool   `json:"draining"`      // false after an undrain
	Changed      bool   `json:"changed"`       // false if nothing changed: it was draining, or not, before
	ShardsBefore int    `json:"shards_before"` // shards that it had at the time of the request; 0 for an undrain
	ShardsLeft   int    `json:"shards_left"`   // shards that it has not released yet
	IsLeader     bool   `json:"is_leader"`     // the node leads; a drain does not change that
}

func (s *adminCalls) drainNode(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeDrain(ctx, r, s.c.Drain)
}

func (s *adminCalls) undrainNode(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeDrain(ctx, r, s.c.Undrain)
}

func (s *adminCalls) changeDrain(ctx context.Context, r *adminRequest,
	do func(ctx context.Context, address string) (cluster.Drained, error)) (any, error) {
	var body DrainRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	if body.Node == "" {
		return nil, missingFieldError("node", "the node's address, as /cluster/nodes has it")
	}
	d, err := do(ctx, body.Node)
	if err != nil && !errors.Is(err, cluster.ErrNotEmpty) {
		return nil, err
	}
	return Drained{Address: d.Address, Incarnation: d.Incarnation, Draining: d.Draining, Changed: d.Changed,
		ShardsBefore: d.Before, ShardsLeft: d.Left, IsLeader: d.Leader}, nil
}

// ResolveRequest is the body of the call that records the unknown outcome of an effect.
type ResolveRequest struct {
	Token int64 `json:"token"` // of the attempt, as shown by /cluster/effects
	// Outcome is done if the effect took place, and failed if it did not; the next call of Once runs a failed
	// effect again.
	Outcome once.State `json:"outcome"`
	Result  []byte     `json:"result,omitempty"` // the value it returned, in base64, if it took place
}

func (s *adminCalls) resolveEffect(ctx context.Context, r *adminRequest) (any, error) {
	var body ResolveRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	switch {
	case body.Token < 1:
		return nil, missingFieldError("token", "that of the attempt, as /cluster/effects has it")
	case body.Outcome != once.Done && body.Outcome != once.Failed:
		return nil, missingFieldError("outcome", "done, if the effect took place, or failed, if it did not")
	case body.Outcome == once.Failed && len(body.Result) > 0:
		return nil, fmt.Errorf(`%w: "result" is of an effect that took place`, errBadBody)
	}
	before, err := s.c.Effects().Look(ctx, r.name)
	switch {
	case err != nil:
		return nil, err
	case before.State == once.Running && before.Token == body.Token:
		return nil, fmt.Errorf("%w: it still runs: its session lives, and it says itself what became of it",
			once.ErrNotUnknown)
	}
	if err := s.c.Effects().Resolve(ctx, r.name, body.Token, body.Outcome == once.Done, body.Result); err != nil {
		return nil, err
	}
	// Return the outcome as it was written: another process may already be running the effect again.
	before.State, before.Value, before.Resolved = body.Outcome, body.Result, s.c.Node().AdvertiseAddress()
	return newEffect(before), nil
}

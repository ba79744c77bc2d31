package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// NamedElection is the state of a named election in etcd.
type NamedElection struct {
	Name       string           `json:"name"`
	LeaderID   string           `json:"leader_id"`
	Token      int64            `json:"token"`
	Candidates []NamedCandidate `json:"candidates"` // the leader first
}

// NamedCandidate is a candidate of a named election.
type NamedCandidate struct {
	Address  string `json:"address"`
	Priority int    `json:"priority"`
	Member   bool   `json:"member"` // false if it is not a Goverse node
}

// Elections lists the named elections that have candidates, in the order of their keys in etcd. It may take until
// ctx ends: timeout only limits one step, in which etcd must answer something. Elections returns the errors of Read.
func (o *Operator) Elections(ctx context.Context, timeout time.Duration, q ListQuery) (List[NamedElection], error) {
	return readList(ctx, o.stepFor(timeout), listSource[NamedElection]{
		needs: "READ on the prefix " + o.keys.Elections().Root(),
		name:  func(e NamedElection) string { return e.Name },
		read: func(ctx context.Context, after string, limit int) (items []NamedElection, more bool, err error) {
			found, more, err := elections.List(ctx, o.client, o.keys, leaderelection.Query{After: after, Limit: limit})
			for _, s := range found {
				items = append(items, namedElection(s))
			}
			return items, more, err
		}}, q)
}

func namedElection(s leaderelection.Standing) NamedElection {
	e := NamedElection{Name: s.Name, LeaderID: s.Leader.Address, Token: s.Leader.Token}
	for _, c := range s.Candidates {
		e.Candidates = append(e.Candidates, NamedCandidate(c))
	}
	return e
}

// TransferElection asks for a named election to be led by the candidate at address, and blocks until it is. It
// is no error if the candidate leads already. TransferElection returns the errors of Read and
// elections.Election.Transfer. When timeout has passed, the error is leaderelection.ErrNotMoved, and the request is
// withdrawn.
func (o *Operator) TransferElection(ctx context.Context, timeout time.Duration, name, address string) (Outcome, error) {
	return o.askNamed(ctx, timeout, name, func(ctx context.Context, e *elections.Election) error {
		return e.Transfer(ctx, address)
	})
}

// ResignElection asks the leader of a named election to give way to the next candidate. It waits and fails like
// TransferElection.
func (o *Operator) ResignElection(ctx context.Context, timeout time.Duration, name string) (Outcome, error) {
	return o.askNamed(ctx, timeout, name, func(ctx context.Context, e *elections.Election) error {
		return e.RequestResign(ctx)
	})
}

// askNamed calls ask with an observer of the election, on a session of its own, and reads the leaders before
// and after.
func (o *Operator) askNamed(ctx context.Context, timeout time.Duration, name string,
	ask func(context.Context, *elections.Election) error) (Outcome, error) {
	if err := state.CheckName("election", name); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before, err := o.readNamedLeader(ctx, name)
	if err != nil {
		return Outcome{}, err
	}
	if err := o.observeElection(ctx, name, ask); err != nil {
		return Outcome{}, err
	}
	now, err := o.readNamedLeader(ctx, name)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{LeaderID: now.Address, Term: now.Token, Token: now.Token,
		PreviousLeaderID: before.Address, PreviousToken: before.Token, Moved: now.Address != before.Address}, nil
}

func (o *Operator) readNamedLeader(ctx context.Context, name string) (leaderelection.Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var e leaderelection.Standing
	err := o.etcd.Ask(ctx, "READ on the prefix "+o.keys.Elections().Root(), func(ctx context.Context) (err error) {
		e, err = elections.ReadState(ctx, o.client, o.keys, name)
		return err
	})
	if errors.Is(err, leaderelection.ErrNoLeader) {
		err = fmt.Errorf("election %s: %w; goversed elections shows those that have a leader",
			quoteIfUnclear(name), leaderelection.ErrNoLeader)
	}
	return e.Leader, err
}

// observeElection calls do with an observer of the election, and ends the observer's session.
func (o *Operator) observeElection(ctx context.Context, name string,
	do func(context.Context, *elections.Election) error) error {
	keeper, queues, err := o.newQueues(o.keys.Elections().BucketPrefix(name), o.keys.Elections())
	if err != nil {
		return err
	}
	all, err := elections.New(elections.Config{Queues: queues.Queues(o.keys.Elections()), Address: requestOwner})
	if err != nil {
		return err
	}
	return onSession(ctx, keeper, wait.RunAll(queues.Run, all.Run), func() error {
		e, err := all.Observe(name)
		if err != nil {
			return err
		}
		return do(ctx, e)
	})
}

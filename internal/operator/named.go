package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/elections"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

// NamedElection is an election other than the cluster's own, as etcd has it.
type NamedElection struct {
	Name       string           `json:"name"`
	LeaderID   string           `json:"leader_id"`
	Token      int64            `json:"token"`
	Candidates []NamedCandidate `json:"candidates"` // the leader first
}

// NamedCandidate is one that stands in a named election.
type NamedCandidate struct {
	Address  string `json:"address"`
	Priority int    `json:"priority"`
	Member   bool   `json:"member"` // false if it is no Goverse node
}

// Elections reads which named elections somebody stands in, by name. Errors are those of Read.
func (o *Operator) Elections(ctx context.Context) ([]NamedElection, error) {
	return o.named(ctx, o.keys.Elections().Root())
}

// named are the elections whose entries lie under prefix.
func (o *Operator) named(ctx context.Context, prefix string) ([]NamedElection, error) {
	var resp *clientv3.GetResponse
	err := o.etcd.Ask(ctx, "READ on the prefix "+o.keys.Elections().Root(), func(ctx context.Context) (err error) {
		resp, err = o.client.Get(ctx, prefix, clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		return err
	})
	if err != nil {
		return nil, err
	}
	found := map[string]*NamedElection{}
	for _, kv := range resp.Kvs {
		name, ok := o.keys.Elections().NameOf(string(kv.Key))
		if !ok {
			continue
		}
		e := found[name]
		if e == nil {
			e = &NamedElection{Name: name, LeaderID: string(kv.Value), Token: kv.CreateRevision}
			found[name] = e
		}
		traits := state.TraitsOf(string(kv.Key))
		e.Candidates = append(e.Candidates, NamedCandidate{string(kv.Value), traits.Priority, traits.Own})
	}
	out := []NamedElection{}
	for _, e := range found {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b NamedElection) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// TransferElection asks for a named election to be led by the candidate at address, and waits
// until it is; that it led already is no error. Errors are those of Read and
// elections.Election.Transfer; the wait ends after timeout with election.ErrNotMoved, and the
// request is withdrawn.
func (o *Operator) TransferElection(ctx context.Context, timeout time.Duration, name, address string) (Outcome, error) {
	return o.askNamed(ctx, timeout, name, func(ctx context.Context, e *elections.Election) error {
		return e.Transfer(ctx, address)
	})
}

// ResignElection asks the leader of a named election to give way to the next, as
// TransferElection does.
func (o *Operator) ResignElection(ctx context.Context, timeout time.Duration, name string) (Outcome, error) {
	return o.askNamed(ctx, timeout, name, func(ctx context.Context, e *elections.Election) error {
		return e.AskResign(ctx)
	})
}

// askNamed has ask done by one that follows the election, on a session of its own, and reads
// who leads before and after.
func (o *Operator) askNamed(ctx context.Context, timeout time.Duration, name string,
	ask func(context.Context, *elections.Election) error) (Outcome, error) {
	if err := state.CheckName("election", name); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before, err := o.leads(ctx, name)
	if err != nil {
		return Outcome{}, err
	}
	if err := o.follow(ctx, name, ask); err != nil {
		return Outcome{}, err
	}
	now, err := o.leads(ctx, name)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{LeaderID: now.LeaderID, Term: now.Token, Token: now.Token,
		PreviousLeaderID: before.LeaderID, PreviousToken: before.Token, Moved: now.LeaderID != before.LeaderID}, nil
}

// leads reads one election.
func (o *Operator) leads(ctx context.Context, name string) (NamedElection, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	found, err := o.named(ctx, o.keys.Elections().Queue(name))
	if err != nil {
		return NamedElection{}, err
	}
	if len(found) == 0 {
		return NamedElection{}, fmt.Errorf("election %s: %w; goversed elections shows those that somebody leads",
			shown(name), election.ErrNoLeader)
	}
	return found[0], nil
}

// follow has do done with an election that is followed, and ends the session.
func (o *Operator) follow(ctx context.Context, name string, do func(context.Context, *elections.Election) error) error {
	keeper, err := o.newKeeper(o.keys.Elections().Bucket(name))
	if err != nil {
		return err
	}
	all, err := elections.New(elections.Config{Config: leasequeue.Config{Client: o.client, Keeper: keeper},
		Queues: o.keys.Elections(), Address: operatorsName})
	if err != nil {
		return err
	}
	return onSession(ctx, keeper, all.Run, func() error {
		e, err := all.Observe(name)
		if err != nil {
			return err
		}
		return do(ctx, e)
	})
}

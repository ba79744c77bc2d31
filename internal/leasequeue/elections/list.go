package elections

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

// List reads the state of the elections that have candidates, as leasequeue.List does and with its errors. more
// reports whether others follow the last one.
func List(ctx context.Context, client *clientv3.Client, keys state.Keys, q leaderelection.Query) (
	found []leaderelection.Standing, more bool, err error) {
	read, more, err := leasequeue.List(ctx, client, keys.Elections(),
		leasequeue.Query{After: q.After, Limit: q.Limit, Entries: q.Candidates})
	for _, r := range read {
		found = append(found, stateFromQueue(r))
	}
	return found, more, err
}

// ReadState reads the state of one election with all its candidates. Errors are leaderelection.ErrNoLeader if it has no
// candidate, leaderelection.ErrBadName, and etcd's.
func ReadState(ctx context.Context, client *clientv3.Client, keys state.Keys, name string) (leaderelection.Standing,
	error) {
	if err := state.CheckName("election", name); err != nil {
		return leaderelection.Standing{}, err
	}
	read, err := leasequeue.ReadQueue(ctx, client, keys.Elections(), name, 0)
	if err != nil {
		return leaderelection.Standing{}, err
	}
	if len(read.Entries) == 0 {
		return leaderelection.Standing{Name: name}, fmt.Errorf("election %q: %w", name, leaderelection.ErrNoLeader)
	}
	return stateFromQueue(read), nil
}

// stateFromQueue returns the state of an election that has candidates.
func stateFromQueue(r leasequeue.QueueState) leaderelection.Standing {
	s := leaderelection.Standing{Name: r.Name, Length: r.Length, Leader: leaderOf(r.Entries[0])}
	for _, x := range r.Entries {
		s.Candidates = append(s.Candidates, leaderelection.Standby{Address: x.Value, Priority: x.Priority,
			Member: !x.Foreign})
	}
	return s
}

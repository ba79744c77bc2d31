package elections

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

// List reads how the elections stand in which somebody does, as leasequeue.List does: more says that there are
// others behind the last. Errors are etcd's.
func List(ctx context.Context, client *clientv3.Client, keys state.Keys, q election.Query) (
	found []election.Standing, more bool, err error) {
	read, more, err := leasequeue.List(ctx, client, keys.Elections(),
		leasequeue.Query{After: q.After, Limit: q.Limit, Entries: q.Candidates})
	if err != nil {
		return nil, false, err
	}
	for _, r := range read {
		first := r.Entries[0]
		s := election.Standing{Name: r.Name, Length: r.Length, Leader: leaderOf(first)}
		for _, x := range r.Entries {
			s.Candidates = append(s.Candidates, election.Standby{Address: x.Value, Priority: x.Priority,
				Member: !x.Foreign})
		}
		found = append(found, s)
	}
	return found, more, nil
}

// LeaderOf reads who leads one election; the zero Leader if nobody stands in it. Errors are etcd's.
func LeaderOf(ctx context.Context, client *clientv3.Client, keys state.Keys, name string) (election.Leader, error) {
	found, err := leasequeue.Read(ctx, client, keys.Elections(), name, 1)
	if err != nil || len(found.Entries) == 0 {
		return election.Leader{}, err
	}
	return leaderOf(found.Entries[0]), nil
}

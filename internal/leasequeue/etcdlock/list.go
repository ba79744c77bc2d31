package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
)

// List reads how the locks stand that somebody holds or waits for, as leasequeue.List does: more says that there
// are others behind the last. Errors are those of leasequeue.List.
func List(ctx context.Context, client *clientv3.Client, keys state.Keys, q lock.Query) (found []lock.Standing,
	more bool, err error) {
	read, more, err := leasequeue.List(ctx, client, keys.Locks(),
		leasequeue.Query{After: q.After, Limit: q.Limit, Entries: q.Holders})
	for _, r := range read {
		s := lock.Standing{Name: r.Name, Shared: r.Entries[0].Shared, Length: r.Length}
		for _, x := range (order.Queue{}).Read(1, r.Entries).Holders() {
			s.Holders = append(s.Holders, lock.Holder{Owner: x.Value, Token: x.Create})
		}
		found = append(found, s)
	}
	return found, more, err
}

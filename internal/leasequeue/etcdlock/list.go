package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
)

// List reads the state of the locks that are held or waited for, as leasequeue.List does and with its errors.
// more reports whether others follow the last one.
func List(ctx context.Context, client *clientv3.Client, keys state.Keys, q lock.Query) (found []lock.Standing,
	more bool, err error) {
	read, more, err := leasequeue.List(ctx, client, keys.Locks(),
		leasequeue.Query{After: q.After, Limit: q.Limit, Entries: q.Holders})
	for _, r := range read {
		s := lock.Standing{Name: r.Name, Shared: r.Entries[0].Shared, Length: r.Length}
		for _, x := range (order.Queue{}).ApplyRead(1, r.Entries).Holders() {
			s.Holders = append(s.Holders, lock.Holder{Owner: x.Value, Token: x.CreateRevision})
		}
		found = append(found, s)
	}
	return found, more, err
}

package effects

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MarksPerLease is for tests.
const MarksPerLease = marksPerLease

// TakeLeases returns what finds the leases for the marks that one process keeps for the retention.
func TakeLeases(client *clientv3.Client, retention,
	timeout time.Duration) func(context.Context) (clientv3.LeaseID, error) {
	return newLeases(client, retention, timeout).take
}

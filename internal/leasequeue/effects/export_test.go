package effects

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MarksPerLease exports marksPerLease to tests.
const MarksPerLease = marksPerLease

// TakeLeases returns a function that returns the leases for the marks of one process.
func TakeLeases(client *clientv3.Client, retention,
	timeout time.Duration) func(context.Context) (clientv3.LeaseID, error) {
	return newLeasePool(client, retention, timeout).leaseForKey
}

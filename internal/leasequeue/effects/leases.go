package effects

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// marksPerLease limits the marks that share a lease. etcd deletes all keys of a lease in one step and does
// nothing else meanwhile: some 8 ms for a thousand keys, and about as long for the lease itself, because 3.7
// commits its deletion to disk within the step. Many marks per lease make one step long; few make many steps.
const marksPerLease = 1000

// sharedLease is a lease that several marks share.
type sharedLease struct {
	id          clientv3.LeaseID
	usableUntil deadline.Instant // until then the full retention remains
	keysLeft    int              // for that many more keys
}

// addKey returns the lease with one more key on it. ok is false if a new lease is needed.
func (l sharedLease) addKey(now deadline.Instant) (_ sharedLease, ok bool) {
	// Both clocks count: one stands still while the machine is suspended, and the other can be set.
	if l.keysLeft < 1 || now.Reached(l.usableUntil) {
		return l, false
	}
	l.keysLeft--
	return l, true
}

// spareTime returns the time by which a lease outlasts the retention: from 1/16 to 9/16 of the retention. For that
// long, keys are put on the lease. drawn is a random number in [0, 1) for each lease. After a change of etcd's
// leader all leases may start anew at one moment; they still end spread over half of the retention.
func spareTime(retention time.Duration, drawn float64) time.Duration {
	return retention/16 + time.Duration(drawn*float64(retention/2))
}

// ceilSeconds returns d in seconds, rounded up.
func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// leasePool provides the leases on which the marks of one process expire. All methods are safe for concurrent use.
type leasePool struct {
	client             *clientv3.Client
	retention, timeout time.Duration
	current            chan sharedLease // holds the present lease; empty while it is replaced
	now                func() deadline.Instant
}

func newLeasePool(client *clientv3.Client, retention, timeout time.Duration) *leasePool {
	l := &leasePool{client: client, retention: retention, timeout: timeout, current: make(chan sharedLease, 1),
		now: deadline.Now}
	l.current <- sharedLease{}
	return l
}

// leaseForKey returns a lease for one key. It lasts at least for the retention from now.
func (l *leasePool) leaseForKey(ctx context.Context) (clientv3.LeaseID, error) {
	var current sharedLease
	select {
	case current = <-l.current:
	case <-ctx.Done():
		return clientv3.NoLease, context.Cause(ctx)
	}
	defer func() { l.current <- current }()
	began := l.now()
	if next, ok := current.addKey(began); ok {
		current = next
		return current.id, nil
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), l.timeout)
	defer cancel()
	more := spareTime(l.retention, rand.Float64())
	// The last put may be in flight for up to the time-out.
	resp, err := l.client.Grant(ctx, ceilSeconds(l.retention+more+l.timeout))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("grant a lease for the marks of effects: %w", err)
	}
	current = sharedLease{resp.ID, began.Add(more), marksPerLease - 1}
	return current.id, nil
}

// dropLease stops using a lease that etcd does not know.
func (l *leasePool) dropLease(id clientv3.LeaseID) {
	current := <-l.current
	if current.id == id {
		current = sharedLease{}
	}
	l.current <- current
}

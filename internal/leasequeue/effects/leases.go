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

// lease is a lease that several marks share.
type lease struct {
	id    clientv3.LeaseID
	until deadline.Instant // until then the full retention remains
	room  int              // for that many more keys
}

// take returns the lease with one more key on it. ok is false if a new lease is needed.
func (l lease) take(now deadline.Instant) (_ lease, ok bool) {
	// Both clocks count: one stands still while the machine is suspended, and the other can be set.
	if l.room < 1 || now.Reached(l.until) {
		return l, false
	}
	l.room--
	return l, true
}

// spare returns the time by which a lease outlasts the retention: from 1/16 to 9/16 of the retention. For that
// long, keys are put on the lease. drawn is a random number in [0, 1) for each lease. After a change of etcd's
// leader all leases may start anew at one moment; they still end spread over half of the retention.
func spare(retention time.Duration, drawn float64) time.Duration {
	return retention/16 + time.Duration(drawn*float64(retention/2))
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// leases provides the leases on which the marks of one process expire. All methods are safe for concurrent use.
type leases struct {
	client             *clientv3.Client
	retention, timeout time.Duration
	current            chan lease // holds the present lease; empty while it is replaced
	now                func() deadline.Instant
}

func newLeases(client *clientv3.Client, retention, timeout time.Duration) *leases {
	l := &leases{client: client, retention: retention, timeout: timeout, current: make(chan lease, 1), now: deadline.Now}
	l.current <- lease{}
	return l
}

// take returns a lease for one key. It lasts at least for the retention from now.
func (l *leases) take(ctx context.Context) (clientv3.LeaseID, error) {
	var current lease
	select {
	case current = <-l.current:
	case <-ctx.Done():
		return clientv3.NoLease, context.Cause(ctx)
	}
	defer func() { l.current <- current }()
	began := l.now()
	if next, ok := current.take(began); ok {
		current = next
		return current.id, nil
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), l.timeout)
	defer cancel()
	more := spare(l.retention, rand.Float64())
	// The last put may be in flight for up to the time-out.
	resp, err := l.client.Grant(ctx, seconds(l.retention+more+l.timeout))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("grant a lease for the marks of effects: %w", err)
	}
	current = lease{resp.ID, began.Add(more), marksPerLease - 1}
	return current.id, nil
}

// lost stops using a lease that etcd does not know.
func (l *leases) lost(id clientv3.LeaseID) {
	current := <-l.current
	if current.id == id {
		current = lease{}
	}
	l.current <- current
}

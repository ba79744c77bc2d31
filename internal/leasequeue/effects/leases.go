package effects

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// marksPerLease is how many marks share a lease at most. etcd deletes all keys of a lease in one
// step, and carries nothing else out meanwhile: some 8 ms for a thousand keys, and about as long for
// the lease itself, whose deletion 3.7 commits to the disk within the step. So many that share a
// lease are a long step, and few that do are many steps.
const marksPerLease = 1000

// lease is one that keys which are kept for a while share.
type lease struct {
	id    clientv3.LeaseID
	until deadline.Instant // until then the retention is left
	room  int              // for so many keys
}

// take is the lease after one more key was put on it; ok is false if another one is needed for that.
func (l lease) take(now deadline.Instant) (_ lease, ok bool) {
	// By both clocks: one stands still while the machine is suspended, the other can be set.
	if l.room < 1 || now.Reached(l.until) {
		return l, false
	}
	l.room--
	return l, true
}

// spare is how much longer than the retention a lease lasts, which is for how long keys are put on
// it: from 1/16 to 9/16 of the retention, by a number from [0, 1) that is drawn for each lease. A
// change of etcd's leader can have all leases begin anew at that moment; they still end within
// half of the retention, and not together.
func spare(retention time.Duration, drawn float64) time.Duration {
	return retention/16 + time.Duration(drawn*float64(retention/2))
}

// seconds is a TTL that is not shorter.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// leases are those that the marks of one process end by. All methods are safe for concurrent use.
type leases struct {
	client             *clientv3.Client
	retention, timeout time.Duration
	current            chan lease // holds the one that is used, and is empty while it is replaced
	now                func() deadline.Instant
}

func newLeases(client *clientv3.Client, retention, timeout time.Duration) *leases {
	l := &leases{client: client, retention: retention, timeout: timeout, current: make(chan lease, 1), now: deadline.Now}
	l.current <- lease{}
	return l
}

// take is a lease to put one key on, once: it lasts for the retention at least.
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
	// The last put is under way for up to the time-out.
	resp, err := l.client.Grant(ctx, seconds(l.retention+more+l.timeout))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("grant a lease for the marks of effects: %w", err)
	}
	current = lease{resp.ID, began.Add(more), marksPerLease - 1}
	return current.id, nil
}

// lost has no other key put on a lease that etcd does not know.
func (l *leases) lost(id clientv3.LeaseID) {
	current := <-l.current
	if current.id == id {
		current = lease{}
	}
	l.current <- current
}

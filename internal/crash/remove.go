package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// The errors of Remove, to test for with errors.Is.
var (
	// ErrRefuted is returned if the accused refuted the accusation: it lives.
	ErrRefuted = errors.New("the accusation was refuted")
	// ErrChanged is returned if the accused incarnation is no longer registered; there is nothing to remove.
	ErrChanged = errors.New("the accused is not registered any more")
)

// Accuser accuses and removes members. It writes under its own session's lease.
type Accuser struct {
	Client *clientv3.Client
	Keys   state.Keys
	// ID identifies the accuser among those of one address; it is an instance id.
	ID string
	// Lease is the lease of the accuser's session.
	Lease clientv3.LeaseID
	// Snapshot returns the newest known state of the cluster, which shows whether the accused is queued. If it
	// is nil, the revocation of the lease removes the accused from the queue.
	Snapshot func() *state.Snapshot
	// GracePeriod is the least time to wait after etcd has acknowledged the accusation: see
	// Settings.GracePeriod. Default suspicion.DefaultGracePeriod.
	GracePeriod time.Duration
}

// RemoveMember accuses m, waits the grace period, and removes m's keys if the accusation was not refuted. It blocks
// for the grace period, two transactions of at most 2 s each, and, if etcd is slow, two more reads. An error
// means that this call did not remove m: ErrRefuted if m lives, ErrChanged if m is gone already.
func (a Accuser) RemoveMember(ctx context.Context, m *state.Member, evidence string) error {
	began := time.Now()
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	written, err := a.writeAccusation(attempt, m, evidence)
	cancel()
	if err != nil {
		return err
	}
	gracePeriod := a.GracePeriod
	if gracePeriod <= 0 {
		gracePeriod = suspicion.DefaultGracePeriod
	}
	took, acknowledged := time.Since(began), time.Now()
	took = a.leastRequestTime(ctx, m, gracePeriod, took)
	if !wait.For(ctx, suspicion.GracePeriod(gracePeriod, took, m)-time.Since(acknowledged)) {
		return context.Cause(ctx)
	}
	ctx, cancel = context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.removeAccused(ctx, m, written)
}

// extraReads is the number of further requests that measure the distance to etcd.
const extraReads = 2

// leastRequestTime returns the time that one request to etcd takes, given that the accusation took took. If took makes
// the grace period longer than it would otherwise be, leastRequestTime sends two reads and returns the least of the
// three. The remainder is load, which is high when a process dies that many others were connected to. leastRequestTime
// returns at the latest when the grace period that follows from took is over.
//
// A slow write in etcd needs no longer grace period: the removal is sent after the refutation and so follows it
// in etcd's log.
func (a Accuser) leastRequestTime(ctx context.Context, m *state.Member, least, took time.Duration) time.Duration {
	gracePeriod := suspicion.GracePeriod(least, took, m)
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), gracePeriod)
	defer cancel()
	for range extraReads {
		if suspicion.GracePeriod(least, took, m) == suspicion.GracePeriod(least, 0, m) {
			break
		}
		began := time.Now()
		if _, err := a.Client.Get(ctx, a.Keys.Node(m.Address), clientv3.WithKeysOnly()); err == nil {
			took = min(took, time.Since(began))
		}
	}
	return took
}

// writeAccusation writes the accusation and returns its revision, or ErrChanged if m is no longer registered.
func (a Accuser) writeAccusation(ctx context.Context, m *state.Member, evidence string) (int64, error) {
	resp, err := txn.Commit(ctx, a.Client, txn.WriteAccusation(a.Keys, m, a.ID, int64(a.Lease), evidence))
	if err != nil {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, err)
	}
	if !resp.Succeeded {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, ErrChanged)
	}
	return resp.Header.Revision, nil
}

// removeAccused removes m's keys if the accusation still stands as it was written. It then revokes the lease,
// with any other keys on it. That is the lease that the node key is attached to, even if the record names
// another one.
func (a Accuser) removeAccused(ctx context.Context, m *state.Member, written int64) error {
	queued := false
	if a.Snapshot != nil && m.KeyLease != 0 {
		c, _ := a.Snapshot().CandidateOn(m.KeyLease)
		queued = c != nil
	}
	resp, err := txn.Commit(ctx, a.Client, txn.RemoveMember(a.Keys, m, queued, a.ID, written))
	if err != nil {
		return fmt.Errorf("remove %s: %w", m.Address, err)
	}
	if !resp.Succeeded {
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != m.Incarnation {
			return fmt.Errorf("remove %s: %w", m.Address, ErrChanged)
		}
		return fmt.Errorf("remove %s: %w", m.Address, ErrRefuted)
	}
	if m.KeyLease != 0 {
		// The lease may hold more keys (an acting key, locks). If the revocation fails the lease expires by
		// itself.
		_, _ = a.Client.Revoke(ctx, clientv3.LeaseID(m.KeyLease))
	}
	return nil
}

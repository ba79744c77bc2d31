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

// The outcomes of Remove other than removal, to test for with errors.Is.
var (
	// ErrRefuted: the accused denied the accusation: it lives.
	ErrRefuted = errors.New("the accusation was refuted")
	// ErrChanged: the accused incarnation is registered no longer; there is
	// nothing to remove.
	ErrChanged = errors.New("the accused is not registered any more")
)

// Accuser is who accuses: it writes under its own session's lease.
type Accuser struct {
	Client *clientv3.Client
	Keys   state.Keys
	// ID tells accusers of one address apart; an instance id.
	ID string
	// Lease is the accuser's session.
	Lease clientv3.LeaseID
	// Snapshot is the state of the cluster as it was last seen: whether the accused is
	// queued. Without it that is left to the revocation of its lease.
	Snapshot func() *state.Snapshot
	// GracePeriod is how long to wait after etcd acknowledged the accusation, at least: see
	// Settings.GracePeriod. Default DefaultGracePeriod.
	GracePeriod time.Duration
}

// Remove accuses m, waits the grace period, and removes m's keys if nobody refuted. It
// blocks for the grace period and two transactions, each of which is given up after 2 s. An error means that it was not
// removed here: ErrRefuted because it lives, ErrChanged because it is gone by
// itself.
func (a Accuser) Remove(ctx context.Context, m *state.Member, evidence string) error {
	began := time.Now()
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	written, err := a.accuse(attempt, m, evidence)
	cancel()
	if err != nil {
		return err
	}
	gracePeriod := a.GracePeriod
	if gracePeriod <= 0 {
		gracePeriod = DefaultGracePeriod
	}
	took, acknowledged := time.Since(began), time.Now()
	took = a.leastTook(ctx, m, gracePeriod, took)
	if !wait.For(ctx, suspicion.GracePeriod(gracePeriod, took, m)-time.Since(acknowledged)) {
		return context.Cause(ctx)
	}
	ctx, cancel = context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.removeAccused(ctx, m, written)
}

// moreLooks is how many requests more than the accusation say how long the way to etcd is.
const moreLooks = 2

// leastTook is how long one request to etcd takes, where the accusation took that long: the least of that and, if it
// makes the grace period longer than it would be, of two reads. The rest is load, which is great at the moment at which
// a process dies that many were connected to. It ends with the grace period that follows from took alone.
//
// That etcd is slow to write needs no longer grace period: the removal comes after the refutation in its log, having
// been sent later.
func (a Accuser) leastTook(ctx context.Context, m *state.Member, least, took time.Duration) time.Duration {
	gracePeriod := suspicion.GracePeriod(least, took, m)
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), gracePeriod)
	defer cancel()
	for range moreLooks {
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

// accuse writes the accusation and returns its revision; ErrChanged if m is
// registered no longer.
func (a Accuser) accuse(ctx context.Context, m *state.Member, evidence string) (int64, error) {
	resp, err := txn.Commit(ctx, a.Client, txn.Accuse(a.Keys, m, a.ID, int64(a.Lease), evidence))
	if err != nil {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, err)
	}
	if !resp.Succeeded {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, ErrChanged)
	}
	return resp.Header.Revision, nil
}

// removeAccused removes m's keys if the accusation stands as it was written, and the lease
// with whatever else is on it: the one that the node key is attached to, whatever the
// record says.
func (a Accuser) removeAccused(ctx context.Context, m *state.Member, written int64) error {
	queued := false
	if a.Snapshot != nil && m.KeyLease != 0 {
		c, _ := a.Snapshot().Candidate(m.KeyLease)
		queued = c != nil
	}
	resp, err := txn.Commit(ctx, a.Client, txn.Remove(a.Keys, m, queued, a.ID, written))
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
		// The lease may hold more (an acting key, locks). If this fails it runs
		// out by itself.
		_, _ = a.Client.Revoke(ctx, clientv3.LeaseID(m.KeyLease))
	}
	return nil
}

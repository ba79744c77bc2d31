package crashdetector

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/internal/planted"
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
	// Grace is how long to wait after etcd acknowledged the accusation.
	// Default DefaultGrace.
	Grace time.Duration
}

// Remove accuses m, waits the grace, and removes m's keys if nobody refuted. It
// blocks for the grace and two transactions. An error means that it was not
// removed here: ErrRefuted because it lives, ErrChanged because it is gone by
// itself.
func (a Accuser) Remove(ctx context.Context, m *state.Member, evidence string) error {
	written, err := a.accuse(ctx, m, evidence)
	if err != nil {
		return err
	}
	grace := a.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return a.strike(ctx, m, written)
}

// accuse writes the accusation and returns its revision; ErrChanged if m is
// registered no longer.
func (a Accuser) accuse(ctx context.Context, m *state.Member, evidence string) (int64, error) {
	accusation := a.Keys.Accusation(m.Address, a.ID)
	record := state.AccusationRecord{Incarnation: m.Incarnation, Evidence: evidence}
	resp, err := a.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(a.Keys.Node(m.Address)), "=", m.Incarnation)).
		Then(clientv3.OpPut(accusation, record.Encode(), clientv3.WithLease(a.Lease))).Commit()
	if err != nil {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, err)
	}
	if !resp.Succeeded {
		return 0, fmt.Errorf("accuse %s: %w", m.Address, ErrChanged)
	}
	return resp.Header.Revision, nil
}

// strike removes m's keys if the accusation stands as it was written, and the lease
// with whatever else is on it.
func (a Accuser) strike(ctx context.Context, m *state.Member, written int64) error {
	node, accusation := a.Keys.Node(m.Address), a.Keys.Accusation(m.Address, a.ID)
	guards := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(node), "=", m.Incarnation)}
	if !planted.Is(planted.RemoveUnguarded) {
		guards = append(guards, clientv3.Compare(clientv3.ModRevision(accusation), "=", written))
	}
	removal := []clientv3.Op{clientv3.OpDelete(node), clientv3.OpDelete(accusation)}
	if m.Lease != 0 {
		removal = append(removal, clientv3.OpDelete(a.Keys.Candidate(m.Lease)))
	}
	// The accusation goes in any case: the accused may be gone by itself, and nobody
	// else would take it away while the accuser lives.
	resp, err := a.Client.Txn(ctx).If(guards...).Then(removal...).
		Else(clientv3.OpGet(node, clientv3.WithKeysOnly()), clientv3.OpDelete(accusation)).Commit()
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
	if m.Lease != 0 {
		// The lease may hold more (an acting key, locks). If this fails it runs
		// out by itself.
		_, _ = a.Client.Revoke(ctx, clientv3.LeaseID(m.Lease))
	}
	return nil
}

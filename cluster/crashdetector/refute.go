package crashdetector

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/mirror"
	"github.com/goverse/goverse/cluster/state"
)

// Refuter denies accusations against its own member by deleting them.
type Refuter struct {
	Client *clientv3.Client
	Mirror *mirror.Mirror
	// Address is the member's own.
	Address string
	// Incarnation is the member's own now, 0 while it is not registered.
	Incarnation func() int64
	Logger      hclog.Logger
}

// against are the accusations that the incarnation at address has to deny.
func against(s *state.Snapshot, address string, incarnation int64) []*state.Accusation {
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Address == address && a.Incarnation == incarnation {
			out = append(out, a)
		}
	}
	return out
}

// Run refutes until ctx ends.
func (r *Refuter) Run(ctx context.Context) {
	sub := r.Mirror.Subscribe()
	defer sub.Close()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-sub.C:
		case <-retry.C:
		case <-ctx.Done():
			return
		}
		s := r.Mirror.Snapshot()
		if s == nil || len(s.Accusations) == 0 {
			continue
		}
		for _, a := range against(s, r.Address, r.Incarnation()) {
			if err := r.refute(ctx, a); err != nil {
				r.Logger.Warn("could not refute an accusation, trying again", "accuser", a.Accuser, "error", err)
				retry.Reset(50 * time.Millisecond)
				break
			}
			r.Logger.Warn("refuted an accusation against this node", "accuser", a.Accuser, "evidence", a.Evidence)
		}
	}
}

func (r *Refuter) refute(ctx context.Context, a *state.Accusation) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	key := r.Mirror.Snapshot().Keys.Accusation(a.Address, a.Accuser)
	_, err := r.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", a.ModRevision)).
		Then(clientv3.OpDelete(key)).Commit()
	return err
}

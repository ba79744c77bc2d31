package crashdetector

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/change"
	"github.com/goverse/goverse/cluster/internal/commit"
	"github.com/goverse/goverse/cluster/mirror"
	"github.com/goverse/goverse/cluster/state"
)

// Refuter denies accusations against its own member by deleting them.
type Refuter struct {
	Client *clientv3.Client
	Mirror *mirror.Mirror
	// Address and InstanceID are the member's own.
	Address, InstanceID string
	Logger              hclog.Logger
}

// against are the accusations that the instance at address has to deny. Which
// incarnation is its own, the snapshot tells: it may know of a registration
// whose answer is still on its way.
func against(s *state.Snapshot, address, instanceID string) []*state.Accusation {
	own := s.Member(address)
	if own == nil || own.InstanceID != instanceID {
		return nil
	}
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Address == address && a.Incarnation == own.Incarnation {
			out = append(out, a)
		}
	}
	return out
}

// Run refutes until ctx ends.
func (r *Refuter) Run(ctx context.Context) {
	sub := r.Mirror.Subscribe(func(_, now *state.Snapshot) bool { return len(now.Accusations) > 0 })
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
		for _, a := range against(s, r.Address, r.InstanceID) {
			refuted, err := r.refute(ctx, a)
			if err != nil {
				r.Logger.Warn("could not refute an accusation, trying again", "accuser", a.Accuser, "error", err)
				retry.Reset(50 * time.Millisecond)
				break
			}
			if refuted {
				r.Logger.Warn("refuted an accusation against this node", "accuser", a.Accuser, "evidence", a.Evidence)
			}
		}
	}
}

// refute reports whether the accusation stood until now.
func (r *Refuter) refute(ctx context.Context, a *state.Accusation) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := commit.Change(ctx, r.Client, change.Refute(r.Mirror.Snapshot().Keys, a))
	return err == nil && resp.Succeeded, err
}

package crashdetector

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/internal/planted"
)

// refuteRetry is the pause after a refutation that etcd did not confirm.
const refuteRetry = 10 * time.Millisecond

// Answer answers for this member until ctx ends: it refutes accusations by deleting
// them, and when a watcher was lost it has the session confirmed by etcd at once, or
// ended after the grace.
func (d *Detector) Answer(ctx context.Context) {
	sub := d.cfg.Mirror.Subscribe(func(_, now *state.Snapshot) bool { return len(now.Accusations) > 0 })
	defer sub.Close()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-sub.C:
		case <-retry.C:
		case <-d.cfg.WatcherLost:
			d.doubt()
			continue
		case <-ctx.Done():
			return
		}
		s := d.cfg.Mirror.Snapshot()
		if s == nil || planted.Is(planted.RefuteNothing) {
			continue
		}
		for _, a := range against(s, d.cfg.Address, d.cfg.InstanceID) {
			refuted, err := d.refute(ctx, s.Keys, a)
			if err != nil {
				d.log.Warn("could not refute an accusation, trying again", "accuser", a.Accuser, "error", err)
				retry.Reset(refuteRetry)
				break
			}
			if refuted {
				d.refutations.Add(1)
				d.log.Warn("refuted an accusation against this node: it lives, but another one cannot reach it; check the network and the advertise address",
					"accuser", a.Accuser, "evidence", a.Evidence)
			}
		}
	}
}

// doubt: whoever lost a watcher may be accused by it, and not hear of it.
func (d *Detector) doubt() {
	d.doubts.Add(1)
	if s := d.cfg.Keeper.Current(); s != nil {
		d.log.Debug("a watcher of this node was lost, asking etcd for a confirmation")
		s.Doubt(d.cfg.Settings.Grace)
	}
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

// refute reports whether the accusation stood until now.
func (d *Detector) refute(ctx context.Context, keys state.Keys, a *state.Accusation) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	key := keys.Accusation(a.Address, a.Accuser)
	resp, err := d.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", a.ModRevision)).
		Then(clientv3.OpDelete(key)).Commit()
	return err == nil && resp.Succeeded, err
}

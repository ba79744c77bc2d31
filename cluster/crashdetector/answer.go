package crashdetector

import (
	"context"
	"time"

	"github.com/goverse/goverse/cluster/internal/change"
	"github.com/goverse/goverse/cluster/internal/commit"
	"github.com/goverse/goverse/cluster/internal/suspicion"
	"github.com/goverse/goverse/cluster/state"
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
		if s == nil {
			continue
		}
		for _, a := range suspicion.Against(s, d.cfg.Address, d.cfg.InstanceID) {
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

// refute reports whether the accusation stood until now.
func (d *Detector) refute(ctx context.Context, keys state.Keys, a *state.Accusation) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := commit.Change(ctx, d.cfg.Client, change.Refute(keys, a))
	return err == nil && resp.Succeeded, err
}

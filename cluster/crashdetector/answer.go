package crashdetector

import (
	"context"
	"time"

	"github.com/goverse/goverse/cluster/internal/change"
	"github.com/goverse/goverse/cluster/internal/commit"
	"github.com/goverse/goverse/cluster/internal/suspicion"
	"github.com/goverse/goverse/cluster/state"
)

const (
	// refuteRetry is the pause after a refutation that etcd did not confirm.
	refuteRetry = 10 * time.Millisecond
	// withdrawRetry is the same for an accusation that is void.
	withdrawRetry = time.Second
	// doubtGraces is how many graces etcd has to confirm the session of a member that
	// lost a watcher. One would keep an overlap shorter where it is cut off; but every
	// crash is a lost watcher to some, and where etcd is slow for a moment just then,
	// healthy members would lose their sessions.
	doubtGraces = 3
)

// Answer answers for this member until ctx ends: it refutes accusations by deleting
// them; when a watcher was lost it has the session confirmed by etcd at once, or ended
// after three graces; and it takes back accusations of its own that are void.
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
		if against := suspicion.Against(s, d.cfg.Address, d.cfg.InstanceID); len(against) > 0 {
			if err := d.refute(ctx, s, against); err != nil {
				d.log.Warn("could not refute an accusation, trying again", "accusers", len(against), "error", err)
				retry.Reset(refuteRetry)
			}
		}
		for _, a := range suspicion.Void(s, d.cfg.InstanceID) {
			if err := d.withdraw(ctx, s, a); err != nil {
				retry.Reset(withdrawRetry) // nobody waits for it
			}
		}
	}
}

// withdraw takes back what this member wrote and has no use for any more.
func (d *Detector) withdraw(ctx context.Context, s *state.Snapshot, a *state.Accusation) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := commit.Change(ctx, d.cfg.Client, change.Withdraw(s.Keys, a))
	return err
}

// doubt: whoever lost a watcher may be accused by it, and not hear of it.
func (d *Detector) doubt() {
	d.doubts.Add(1)
	if s := d.cfg.Keeper.Current(); s != nil {
		d.log.Debug("a watcher of this node was lost, asking etcd for a confirmation")
		s.Doubt(doubtGraces * d.cfg.Settings.Grace)
	}
}

// refute takes all accusations back in one request: each has but a grace.
func (d *Detector) refute(ctx context.Context, s *state.Snapshot, against []*state.Accusation) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := commit.Change(ctx, d.cfg.Client, change.Refute(s.Keys, s.Member(d.cfg.Address), against))
	if err != nil || !resp.Succeeded {
		return err // without success the member is registered no longer
	}
	for i, a := range against {
		if resp.Responses[i].GetResponseDeleteRange().Deleted == 0 {
			continue // it was taken back before, or its accuser is gone
		}
		d.refutations.Add(1)
		d.log.Warn("refuted an accusation against this node: it lives, but another one cannot reach it; check the network and the advertise address",
			"accuser", a.Accuser, "evidence", a.Evidence)
	}
	return nil
}

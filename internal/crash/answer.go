package crash

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// Answer answers for this member until ctx ends: it refutes accusations by deleting
// them; when a watcher was lost it has the session confirmed by etcd at once, or suspended
// (see suspicion.ConfirmWithin); and it takes back accusations of its own that are void.
func (d *Detector) Answer(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { d.watcherLost(ctx) })
	wg.Go(func() { d.onAccusations(ctx, d.withdrawVoid) })
	d.onAccusations(ctx, newRefuter(d, &wg).refute)
	wg.Wait()
}

// watcherLost has the session confirmed after the loss of a watcher: the watcher may accuse this member, which may not
// hear of it. One confirmation covers all that were lost until it is asked for. Those lost soon after that, within a
// grace period or 100 ms, have the next one together, which counts from the earliest instant at which they can have
// been lost.
func (d *Detector) watcherLost(ctx context.Context) {
	late := time.Duration(0)
	for {
		select {
		case <-d.cfg.WatcherLost:
		default:
			late = 0
			select {
			case <-d.cfg.WatcherLost:
			case <-ctx.Done():
				return
			}
		}
		d.watchersLost.Add(1)
		if s := d.cfg.Keeper.Current(); s != nil {
			d.log.Debug("a watcher of this node was lost, asking etcd for a confirmation")
			s.SuspectSince(late, suspicion.ConfirmWithin(d.cfg.Settings.GracePeriod,
				d.cfg.Mirror.Snapshot().Member(d.cfg.Address)))
		}
		asked := time.Now()
		if !wait.For(ctx, min(d.cfg.Settings.GracePeriod, DefaultGracePeriod)) { // a third of what a confirmation has
			return
		}
		late = time.Since(asked)
	}
}

// onAccusations calls do with each snapshot that shows accusations, and again after the
// time that it returns, unless that is 0.
func (d *Detector) onAccusations(ctx context.Context, do func(context.Context, *state.Snapshot) time.Duration) {
	sub := d.cfg.Mirror.Subscribe(func(before, now *state.Snapshot) bool {
		return len(before.Accusations) > 0 || len(now.Accusations) > 0
	})
	defer sub.Close()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-sub.C:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if s := d.cfg.Mirror.Snapshot(); s != nil {
			if after := do(ctx, s); after > 0 {
				again.Reset(after)
			}
		}
	}
}

// withdrawVoid takes back what this member wrote and has no use for any more.
func (d *Detector) withdrawVoid(ctx context.Context, s *state.Snapshot) time.Duration {
	for _, a := range suspicion.Void(s, d.cfg.InstanceID) {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := txn.Commit(attempt, d.cfg.Client, txn.Withdraw(s.Keys, a))
		cancel()
		if err != nil {
			return suspicion.WithdrawRetry.Delay(1, d.cfg.Random())
		}
	}
	return 0
}

// refuter denies the accusations against this member.
type refuter struct {
	d     *Detector
	wg    *sync.WaitGroup // of the requests under way
	slots chan struct{}
	sent  int64 // the newest accusation that a refutation was sent of; of the goroutine that calls refute

	mu     sync.Mutex
	denied int64 // the newest accusation that was said in the log, by its revision
	failed int64 // the same of those whose refutation failed
}

func newRefuter(d *Detector, wg *sync.WaitGroup) *refuter {
	return &refuter{d: d, wg: wg, slots: make(chan struct{}, suspicion.RefutationsAtOnce)}
}

// refute sends one request that takes back all accusations, and does not wait for it.
func (r *refuter) refute(ctx context.Context, s *state.Snapshot) time.Duration {
	against := suspicion.Against(s, r.d.self())
	if len(against) == 0 {
		return 0
	}
	if newest := newestOf(against).ModRevision; newest > r.sent {
		// Never after those under way, which etcd may be slow to write: the grace period counts on it.
		r.sent = newest
		r.wg.Go(func() { r.send(ctx, s, against) })
		return suspicion.RefuteAgain
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return suspicion.RefuteAgain
	}
	r.wg.Go(func() {
		defer func() { <-r.slots }()
		r.send(ctx, s, against)
	})
	return suspicion.RefuteAgain
}

// newestOf is the accusation that was written last.
func newestOf(all []*state.Accusation) *state.Accusation {
	return slices.MaxFunc(all, func(a, b *state.Accusation) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
}

func (r *refuter) send(ctx context.Context, s *state.Snapshot, against []*state.Accusation) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := txn.Commit(ctx, r.d.cfg.Client, txn.Refute(s.Keys, s.Member(r.d.cfg.Address), against))
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := newestOf(against)
	switch {
	case err != nil:
		if newest.ModRevision > r.failed && newest.ModRevision > r.denied {
			r.failed = newest.ModRevision
			r.d.log.Warn("could not refute an accusation, retrying", "accuser", accuserName(s, newest), "error", err)
		}
		return
	case !resp.Succeeded:
		return // it is registered no longer, or anew
	}
	for i, a := range against {
		if resp.Responses[i].GetResponseDeleteRange().Deleted == 0 || a.ModRevision <= r.denied {
			continue // taken back before
		}
		r.d.refutations.Add(1)
		r.d.log.Log(refutedLevel(s, a.Address), "refuted an accusation against this node: it lives, but another one "+
			"cannot reach it; check the network and the advertise address",
			"accuser", accuserName(s, a), "evidence", a.Evidence)
	}
	r.denied = max(r.denied, newest.ModRevision)
}

// accuserName is the accuser's address, where that is known.
func accuserName(s *state.Snapshot, a *state.Accusation) string {
	return cmp.Or(s.AccuserAddress(a), a.Accuser)
}

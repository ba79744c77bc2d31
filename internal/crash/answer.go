package crash

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// DefendSelf defends this member until ctx ends. It refutes accusations by deleting them. When a watcher was lost
// it has etcd confirm the session at once, which is suspended otherwise (see suspicion.ConfirmWithin). It also
// withdraws its own void accusations.
func (d *Detector) DefendSelf(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { d.handleLostWatchers(ctx) })
	wg.Go(func() { d.onAccusations(ctx, d.withdrawVoid) })
	d.onAccusations(ctx, newRefuter(d, &wg).refute)
	wg.Wait()
}

// handleLostWatchers has the session confirmed after the loss of a watcher, because that watcher may accuse this
// member, which may not learn of it. One confirmation covers all watchers lost before it is requested. Those
// lost shortly afterwards, within a grace period or 100 ms, share the next one. Its time limit counts from the
// earliest instant at which one of them can have been lost.
func (d *Detector) handleLostWatchers(ctx context.Context) {
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
			s.Suspect(late, suspicion.ConfirmWithin(d.cfg.Settings.GracePeriod,
				d.cfg.Mirror.Snapshot().Member(d.cfg.Address)))
		}
		asked := time.Now()
		if !wait.For(ctx, min(d.cfg.Settings.GracePeriod, suspicion.DefaultGracePeriod)) { // a third of a confirmation's time
			return
		}
		late = time.Since(asked)
	}
}

// onAccusations calls do with each snapshot that shows accusations, and again after the duration that do
// returns, unless that is 0.
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

// markLasts is the time after which a mark of a removal is deleted. By then every node has seen it.
const markLasts = 5 * time.Second

// withdrawVoid deletes this member's accusations that serve no purpose anymore. It returns the time after which to look
// again, 0 for never. One goroutine calls it.
func (d *Detector) withdrawVoid(ctx context.Context, s *state.Snapshot) (again time.Duration) {
	void, now := suspicion.VoidAccusations(s, d.cfg.InstanceID), time.Duration(d.cfg.Clock().Mono)
	maps.DeleteFunc(d.marks, func(revision int64, _ time.Duration) bool {
		return !slices.ContainsFunc(void, func(a *state.Accusation) bool { return a.ModRevision == revision })
	})
	for _, a := range void {
		if a.Removed {
			since, known := d.marks[a.ModRevision]
			if !known {
				since = now
				d.marks[a.ModRevision] = since
			}
			if left := markLasts - (now - since); left > 0 {
				if again == 0 || left < again {
					again = left
				}
				continue
			}
		}
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := txn.Commit(attempt, d.cfg.Client, txn.WithdrawAccusation(s.Keys, a))
		cancel()
		if err != nil {
			return suspicion.WithdrawRetry.Delay(1, d.cfg.Random())
		}
	}
	return again
}

// refuter refutes the accusations against this member.
type refuter struct {
	d     *Detector
	wg    *sync.WaitGroup // of the requests in progress
	slots chan struct{}
	sent  int64 // newest accusation for which a refutation was sent; used by the goroutine that calls refute

	mu           sync.Mutex
	answeredUpTo int64 // revision of the newest accusation with a refutation that etcd has answered
	failedUpTo   int64 // revision of the newest accusation with a failed refutation that was logged
}

func newRefuter(d *Detector, wg *sync.WaitGroup) *refuter {
	return &refuter{d: d, wg: wg, slots: make(chan struct{}, suspicion.RefutationsAtOnce)}
}

// refute sends one request that deletes all accusations, and does not wait for its answer.
func (r *refuter) refute(ctx context.Context, s *state.Snapshot) time.Duration {
	against := suspicion.AccusationsAgainst(s, r.d.self())
	if len(against) == 0 {
		return 0
	}
	if newest := newestOf(against).ModRevision; newest > r.sent {
		// The first refutation of an accusation never waits for requests in progress, which etcd may be slow to
		// write. The grace period relies on that.
		r.sent = newest
		r.wg.Go(func() { r.sendRefutation(ctx, s, against) })
		return suspicion.RefuteAgain
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return suspicion.RefuteAgain
	}
	r.wg.Go(func() {
		defer func() { <-r.slots }()
		r.sendRefutation(ctx, s, against)
	})
	return suspicion.RefuteAgain
}

// RecordRefuted counts and logs accusations against this member that its session has read and deleted.
func (d *Detector) RecordRefuted(keys []string) {
	silent := d.cfg.Keys.SilenceAccusationsOf(d.cfg.Address)
	for _, key := range keys {
		if accuser, ok := strings.CutPrefix(key, silent); ok {
			d.refutations.Add(1)
			d.log.Warn("refuted an accusation of silence against this node: its watcher got no heartbeat for long; check "+
				"the network and whether this node has enough processor time", "accuser", accuser)
		}
	}
}

// newestOf returns the accusation that was written last.
func newestOf(all []*state.Accusation) *state.Accusation {
	return slices.MaxFunc(all, func(a, b *state.Accusation) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
}

func (r *refuter) sendRefutation(ctx context.Context, s *state.Snapshot, against []*state.Accusation) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := txn.Commit(ctx, r.d.cfg.Client, txn.RefuteAccusations(s.Keys, s.Member(r.d.cfg.Address), against))
	r.recordAnswer(s, against, resp, err)
}

// recordAnswer counts and logs the accusations that a request has deleted. The answers may come in any order: that of a
// copy, which found nothing left to delete, before that of the request that has deleted them.
func (r *refuter) recordAnswer(s *state.Snapshot, against []*state.Accusation, resp *clientv3.TxnResponse, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := newestOf(against)
	switch {
	case err != nil:
		if newest.ModRevision > r.failedUpTo && newest.ModRevision > r.answeredUpTo {
			r.failedUpTo = newest.ModRevision
			r.d.log.Warn("could not refute an accusation, retrying", "accuser", accuserName(s, newest), "error", err)
		}
		return
	case !resp.Succeeded:
		return // the member is no longer registered, or registered anew
	}
	for i, a := range against {
		if resp.Responses[i].GetResponseDeleteRange().Deleted == 0 {
			continue // already withdrawn, or deleted by a copy of the request
		}
		r.d.refutations.Add(1)
		r.d.log.Log(refutedLevel(s, a.Address), "refuted an accusation against this node: it lives, but another one "+
			"cannot reach it; check the network and the advertise address",
			"accuser", accuserName(s, a), "evidence", a.Evidence)
	}
	r.answeredUpTo = max(r.answeredUpTo, newest.ModRevision)
}

// accuserName returns the accuser's address, or its id if the address is unknown.
func accuserName(s *state.Snapshot, a *state.Accusation) string {
	return cmp.Or(s.AccuserAddress(a), a.Accuser)
}

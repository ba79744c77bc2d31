package consensusmanager

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/hedge"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/state/txn"
)

// A map is written again while etcd does not answer: first after five round trips and leastWriteGap at least, then
// after twice as long each time, up to mostWriteGap. The member of etcd that received it may be gone with the former
// leader's host, and the connection would break only after a second.
const leastWriteGap, mostWriteGap = 25 * time.Millisecond, 100 * time.Millisecond

// planner writes the shard map while that is this node's duty. Package shardplan decides; planner carries it
// out.
type planner struct {
	cfg      Config
	election *leaderelection.LeaderElection

	unreadableRevision int64           // ModRevision of the last map that was reported as unreadable; -1 means none
	writeBackoff       backoff.Backoff // after a map that could not be written
	stats              planStats
}

func newPlanner(cfg Config, election *leaderelection.LeaderElection) *planner {
	return &planner{cfg: cfg, election: election, unreadableRevision: -1,
		writeBackoff: backoff.Backoff{Policy: shardplan.WriteRetry, Random: cfg.Random}}
}

// run plans after every change that planning depends on, until ctx ends.
func (p *planner) run(ctx context.Context) {
	sub := p.cfg.Mirror.Subscribe(shardplan.ChangeMatters)
	defer sub.Close()
	duty := p.election.Subscribe()
	defer duty.Close()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	part := shardplan.New(p.cfg.Planning)
	for {
		select {
		case <-sub.C:
		case <-duty.C:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		var after time.Duration
		if part, after = p.planOnce(ctx, part); after > 0 {
			again.Reset(after)
		}
	}
}

func (p *planner) planOnce(ctx context.Context, part shardplan.Planner) (shardplan.Planner, time.Duration) {
	snap := p.cfg.Mirror.Snapshot()
	fence, mine := p.election.Duty()
	switch {
	case !mine:
		return part.OffDuty(), 0
	case snap == nil || snap.Stale:
		return part, 0 // a newer snapshot wakes the loop
	}
	began := time.Now()
	part, orders := part.Decide(snap, began)
	p.logUnplannable(orders.OverRevision, orders.Err)
	if orders.Err != nil || orders.Plan.MovedShards() == 0 {
		return part, orders.RecheckAfter
	}
	planned := time.Now()
	attempt, cancel := context.WithTimeout(ctx, p.cfg.RequestTimeout)
	defer cancel()
	at, err := p.writeMap(attempt, txn.WriteMap(p.cfg.Keys, fence, orders.Plan.Map, orders.OverRevision))
	switch {
	case ctx.Err() != nil:
		return part, 0
	case err != nil:
		return part, p.writeFailed(err)
	}
	p.writeBackoff.Reset()
	if at == 0 {
		return part, shardplan.RecheckDelay // another node planned, or this node's duty is over; the snapshot will show it
	}
	part = part.PlanWritten(orders.Plan, planned)
	p.stats.recordPlan(orders.Plan, planned.Sub(began))
	written := orders.Plan.Map
	if orders.OverRevision == 0 { // the first map counts from the revision at which its key was created
		written = written.NotBefore(at)
	}
	p.cfg.Logger.Info("wrote the shard map", "generation", written.Generation(), "assigned", orders.Plan.Assigned,
		"drained", orders.Plan.Drained, "rebalanced", orders.Plan.Rebalanced,
		"planned_in", planned.Sub(began).Round(10*time.Microsecond).String(), event.Field, string(event.ShardsRebalanced))
	// The next plan is based on this map, so wait until the snapshot shows it.
	_, _ = p.cfg.Mirror.Wait(attempt, func(s *state.Snapshot) bool { return s.Revision >= at })
	return part, shardplan.RecheckDelay
}

// writeMap carries out t, which txn.WriteMap has returned. It returns the revision at which the map was written, 0 if
// it was not because a guard did not hold. If it returns an error, the map may still be written.
func (p *planner) writeMap(ctx context.Context, t txn.Txn) (at int64, err error) {
	known, again := p.cfg.Mirror.KnownRevision(), leastWriteGap
	if s := p.cfg.Keeper.Current(); s != nil {
		again = s.ResendAfter(again, p.cfg.RequestTimeout)
	}
	resp, err := hedge.Do(ctx, hedge.Policy{First: again, Last: mostWriteGap},
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return txn.Commit(ctx, p.cfg.Client, t) })
	if err != nil {
		return 0, err
	}
	p.cfg.Mirror.ObserveHeader(resp.Header, known)
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	for _, kv := range resp.Responses[0].GetResponseRange().GetKvs() {
		if string(kv.Value) == t.Then[0].Value {
			return kv.ModRevision, nil // an earlier copy was written
		}
	}
	return 0, nil
}

// writeFailed logs the first of several failures to write a map, and returns the pause before the next attempt.
func (p *planner) writeFailed(err error) time.Duration {
	if p.writeBackoff.Failures() == 0 {
		p.cfg.Logger.Warn("could not write the shard map, retrying", "error", err)
	}
	return p.writeBackoff.Next()
}

// logUnplannable logs, once for each map, that the map written at revision over cannot be planned over.
func (p *planner) logUnplannable(over int64, err error) {
	if err == nil || over == p.unreadableRevision {
		return
	}
	p.unreadableRevision = over
	remedy := "; if Goverse did not write it, delete " + p.cfg.Keys.ShardMap()
	if errors.Is(err, format.ErrFormat) {
		remedy = "" // err has it
	}
	p.cfg.Logger.Error("the shard map cannot be read or planned over, so no shard moves"+remedy, "error", err)
}

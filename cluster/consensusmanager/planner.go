package consensusmanager

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// PlannerConfig is what planning needs. Random and Logger may be nil.
type PlannerConfig struct {
	Client   *clientv3.Client
	Keys     state.Keys
	Mirror   *watchcache.Mirror
	Settings shardplan.Settings
	Timeout  time.Duration  // of one request to etcd
	Random   func() float64 // by which retries get out of step; nil: math/rand's
	Logger   hclog.Logger
}

// planner writes the shard map while that is this node's duty: it carries out what
// package shardplan decides.
type planner struct {
	client   *clientv3.Client
	keys     state.Keys
	mirror   *watchcache.Mirror
	election *leaderelection.LeaderElection
	settings shardplan.Settings
	timeout  time.Duration
	log      hclog.Logger

	bad   int64           // the map that was complained of, by its ModRevision; -1: none was
	retry backoff.Backoff // after a map that could not be written
	stats planStats
}

func newPlanner(cfg PlannerConfig, election *leaderelection.LeaderElection) *planner {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &planner{bad: -1, client: cfg.Client, keys: cfg.Keys, mirror: cfg.Mirror, election: election,
		settings: cfg.Settings, timeout: cfg.Timeout, log: cfg.Logger,
		retry: backoff.Backoff{Policy: shardplan.Retry, Random: cfg.Random}}
}

// run looks whenever something changed that planning depends on, until ctx ends.
func (p *planner) run(ctx context.Context) {
	sub := p.mirror.Subscribe(shardplan.Concerns)
	defer sub.Close()
	duty := p.election.Subscribe()
	defer duty.Close()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	part := shardplan.New(p.settings)
	for {
		select {
		case <-sub.C:
		case <-duty.C:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		var after time.Duration
		if part, after = p.look(ctx, part); after > 0 {
			again.Reset(after)
		}
	}
}

func (p *planner) look(ctx context.Context, part shardplan.Planner) (shardplan.Planner, time.Duration) {
	snap := p.mirror.Snapshot()
	fence, mine := p.election.Duty()
	switch {
	case !mine:
		return part.Off(), 0
	case snap == nil || snap.Stale:
		return part, 0 // it is notified when there is a newer one
	}
	began := time.Now()
	part, orders := part.Look(snap, began)
	p.complain(orders.Over, orders.Err)
	if orders.Err != nil || orders.Plan.Moved() == 0 {
		return part, orders.Again
	}
	planned := time.Now()
	attempt, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	known := p.mirror.Known()
	resp, err := txn.Commit(attempt, p.client, txn.WriteMap(p.keys, fence, orders.Plan.Map, orders.Over))
	switch {
	case ctx.Err() != nil:
		return part, 0
	case err != nil:
		return part, p.failed(err)
	}
	p.retry.Reset()
	p.mirror.Saw(resp.Header, known)
	if !resp.Succeeded {
		return part, shardplan.Again // another one planned, or this node's duty is over: the snapshot will show it
	}
	part = part.Wrote(orders.Plan, planned)
	p.stats.wrote(orders.Plan, planned.Sub(began))
	written := orders.Plan.Map
	if orders.Over == 0 { // the first one: it counts from the revision at which its key was created
		written = written.NotBefore(resp.Header.Revision)
	}
	p.log.Info("wrote the shard map", "generation", written.Generation(), "assigned", orders.Plan.Assigned,
		"drained", orders.Plan.Drained, "rebalanced", orders.Plan.Rebalanced,
		"planned_in", planned.Sub(began).Round(10*time.Microsecond).String(), event.Field, string(event.ShardsRebalanced))
	// What follows is planned over this map, so not before it is seen.
	_, _ = p.mirror.Wait(attempt, func(s *state.Snapshot) bool { return s.Revision >= resp.Header.Revision })
	return part, shardplan.Again
}

// failed says why a map could not be written, the first time, and returns when to try
// again.
func (p *planner) failed(err error) time.Duration {
	if p.retry.Failures() == 0 {
		p.log.Warn("could not write the shard map, retrying", "error", err)
	}
	return p.retry.Next()
}

// complain says once that there is no planning over the map that was written at over, and
// why.
func (p *planner) complain(over int64, err error) {
	if err == nil || over == p.bad {
		return
	}
	p.bad = over
	p.log.Error("the shard map cannot be read or planned over: if no newer version of Goverse wrote it, delete "+
		p.keys.ShardMap(), "error", err)
}

package shardview

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// maxSteps is more than a planner needs to finish: a repair, a rebalance, and the waits between them.
const maxSteps = 16

// DryRun runs the planner on a snapshot with supposed changes until it has nothing left to do. Errors match
// ErrUnknownNode, ErrKnownNode, sharding.ErrBadMap or sharding.ErrBadInput.
func DryRun(s *state.Snapshot, cfg Settings, suppose SupposedChange) (Preview, error) {
	now, err := applyChange(s, suppose)
	if err != nil {
		return Preview{}, err
	}
	f := Preview{Count: shardCount(now), Steps: []PlanStep{}, Nodes: []NodeLoad{}}
	var before *sharding.Map
	if s.ShardMap != nil {
		v, err := New(s)
		if err != nil {
			return Preview{}, err
		}
		before, f.Generation, f.OpenMoves = s.Map(), v.Generation, v.OpenMoves
	}
	settings := shardplan.Settings{Shards: f.Count, Window: cfg.Window, MinMembers: cfg.MinMembers, Exclude: cfg.Exclude,
		Budget: 2 * f.Count}
	began := time.Unix(0, 0)
	planner, at := shardplan.New(settings), began
	for range maxSteps {
		next, orders := planner.Decide(now, at)
		if orders.Err != nil {
			return Preview{}, orders.Err
		}
		planner = next
		if orders.Plan.MovedShards() > 0 {
			f.Steps = append(f.Steps, newStep(at.Sub(began), now, settings, orders.Plan))
			planner = planner.PlanWritten(orders.Plan, at)
			now = snapshotAfter(now, orders.Plan.Map)
			continue
		}
		if orders.RecheckAfter == 0 {
			break
		}
		at = at.Add(orders.RecheckAfter)
	}
	f.Nodes = nodeLoads(before, now.Map(), now)
	f.Remark = explainUnassigned(now, settings)
	return f, nil
}

// explainUnassigned explains why shards have no lasting owner, "" if they have.
func explainUnassigned(s *state.Snapshot, cfg shardplan.Settings) string {
	takers, owned := 0, false
	for _, m := range shardplan.PlanMembers(s, cfg) {
		if !m.Excluded {
			takers++
		}
	}
	if v, err := New(s); err == nil {
		owned = slices.ContainsFunc(v.Owners, func(o shard.OwnerRow) bool { return o.State != shard.Gone && o.Count > 0 })
	}
	switch {
	case takers == 0:
		return "no node can take shards: all of them leave, are excluded, or run without sharding"
	case !owned:
		return fmt.Sprintf("nothing is assigned before %d nodes can take shards; there are %d", cfg.MinMembers, takers)
	}
	return ""
}

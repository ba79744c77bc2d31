package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

// Shards reads the shard map and the progress of its moves once. Shards returns the errors of Read, ErrNoNodes,
// and the errors of shardview.New.
func (o *Operator) Shards(ctx context.Context) (shard.Table, error) {
	snap, err := o.read(ctx)
	if err != nil {
		return shard.Table{}, err
	}
	v, err := shardview.New(snap)
	if errors.Is(err, shardview.ErrNoMap) {
		if err := o.requireNodes(ctx, snap); err != nil {
			return v, err
		}
		return v, fmt.Errorf("%w; goversed shards plan shows what it waits for", err)
	}
	return v, err
}

// DryRun reads the cluster once and returns the actions that its planner would take. DryRun returns the errors
// of Read, ErrNoNodes, and the errors of shardview.DryRun.
func (o *Operator) DryRun(ctx context.Context, cfg shardview.Settings,
	suppose shardview.SupposedChange) (shardview.Preview, error) {
	snap, err := o.read(ctx)
	if err != nil {
		return shardview.Preview{}, err
	}
	if snap.ShardMap == nil {
		if err := o.requireNodes(ctx, snap); err != nil {
			return shardview.Preview{}, err
		}
	}
	f, err := shardview.DryRun(snap, cfg, suppose)
	switch {
	case errors.Is(err, shardview.ErrUnknownNode):
		return f, fmt.Errorf("--without: %w; goversed nodes shows them", err)
	case errors.Is(err, shardview.ErrKnownNode):
		return f, fmt.Errorf("--with: %w: give the address of one that is not there", err)
	}
	if err == nil && snap.Planner() == nil && len(suppose.Join) == 0 {
		f.Steps, f.Remark = []shardview.PlanStep{}, "there is no leader: no shard moves until a node leads"
		for i, n := range f.Nodes {
			f.Nodes[i].Then = n.Now
		}
	}
	return f, err
}

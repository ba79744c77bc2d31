package cluster

import (
	"context"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/callback"
)

// shardRuns calls Sharding.Run for the shards of this node, between OnAcquire and OnRelease.
type shardRuns struct {
	sharding Sharding
	log      hclog.Logger

	mu   sync.Mutex
	runs map[int]chan struct{} // by shard; closed when its Run has ended for good
}

// onAcquire is called when this node becomes the owner of a shard. ctx ends when the shard is handed over.
func (r *shardRuns) onAcquire(ctx context.Context, shard int, epoch int64) {
	if r.sharding.OnAcquire != nil {
		r.sharding.OnAcquire(ctx, shard, epoch)
	}
	ended := make(chan struct{})
	r.mu.Lock()
	r.runs[shard] = ended
	r.mu.Unlock()
	go func() { // onRelease waits for it
		defer close(ended)
		callback.Repeat(ctx, r.log, "Sharding.Run failed",
			func() error { return r.sharding.Run(ctx, shard, epoch) }, "shard", shard)
	}()
}

// onRelease is called after the context of onAcquire has ended. It waits for Run, however long that takes.
func (r *shardRuns) onRelease(ctx context.Context, shard int) {
	r.mu.Lock()
	ended := r.runs[shard]
	delete(r.runs, shard)
	r.mu.Unlock()
	if ended != nil { // nil if OnAcquire failed until the shard was lost
		select {
		case <-ended:
		case <-ctx.Done():
			r.log.Warn("Sharding.Run goes on after its context has ended: the shard waits for it", "shard", shard)
			<-ended
		}
	}
	if r.sharding.OnRelease != nil {
		r.sharding.OnRelease(ctx, shard)
	}
}

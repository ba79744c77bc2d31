package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/wait"
)

// runRetry is the pause before a Sharding.Run that has failed is called again.
var runRetry = backoff.Policy{First: time.Second / 4, Last: 10 * time.Second}

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
	go func() { // release waits for it
		defer close(ended)
		r.repeatRun(ctx, shard, epoch)
	}()
}

// repeatRun calls Run until it returns nil or ctx ends.
func (r *shardRuns) repeatRun(ctx context.Context, shard int, epoch int64) {
	pause := backoff.Backoff{Policy: runRetry}
	for ctx.Err() == nil {
		began := time.Now()
		err := callback.Run(func() error { return r.sharding.Run(ctx, shard, epoch) })
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > runRetry.Last {
			pause.Reset()
		}
		about := []any{"shard", shard, "error", err}
		if stack := callback.PanicStack(err); stack != "" {
			about = append(about, "stack", stack)
		}
		r.log.Error("Sharding.Run failed, calling it again", about...)
		if !wait.For(ctx, pause.Next()) {
			return
		}
	}
}

// onRelease is called after the context of acquire has ended. It waits for Run, however long that takes.
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

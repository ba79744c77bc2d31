package consensusmanager

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/wait"
)

// Runner starts and stops this node's part in what the cluster agrees on: in the election, in the planning of the
// shards and in the shards. Start, Run, Relinquish, Withdraw and Close are for the code that starts and stops the node.
// The other methods are safe for concurrent use, at any time.
type Runner struct {
	election *leaderelection.LeaderElection
	part     *leaderelection.Participation // starts and ends election
	mirror   *watchcache.Mirror
	fallback bool
	planner  *planner
	shards   *Shards     // nil if sharding is off
	watches  *wait.Group // those of ConsensusManager, but for WatchLeader
}

// Config configures a [Runner]. All fields are required. The mirror and the keeper belong to the caller, which runs
// them.
type Config struct {
	etcd.Process
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
	Settings
}

// Settings configures a node's part in what the cluster agrees on.
type Settings struct {
	// Observer, Fallback and WorkTimeout are those of [leaderelection.MemberConfig].
	Observer, Fallback bool
	WorkTimeout        time.Duration
	// Planning configures the planning of shards while that is this node's duty. Without Planning.Shards this node
	// owns no shards, and the settings below do not matter.
	Planning     shardplan.Settings
	DrainTimeout time.Duration
	// OnAcquire and OnRelease may be nil. MaxAcquiring limits concurrent calls of OnAcquire; 0: no limit.
	OnAcquire    func(ctx context.Context, shard int, epoch int64)
	MaxAcquiring int
	OnRelease    func(ctx context.Context, shard int)
	// Residents creates what lives in the shards, which do not run yet. It may be nil.
	Residents func(*Shards) Residents
}

// NewRunner returns a runner of which nothing runs yet. The error describes a mistake in the configuration.
func NewRunner(cfg Config) (*Runner, error) {
	election, part, err := leaderelection.NewForMember(leaderelection.MemberConfig{Process: cfg.Named("election"),
		Observer: cfg.Observer, Fallback: cfg.Fallback, WorkTimeout: cfg.WorkTimeout, Mirror: cfg.Mirror,
		Keeper: cfg.Keeper})
	if err != nil {
		return nil, err
	}
	r := &Runner{election: election, part: part, mirror: cfg.Mirror, fallback: cfg.Fallback, watches: wait.NewGroup()}
	cfg.Process = cfg.Named("shards").WithDefaults()
	r.planner = newPlanner(cfg, election)
	if cfg.Planning.Shards > 0 {
		r.shards = newShards(cfg)
	}
	return r, nil
}

// Run plans while that is this node's duty, and acquires and releases shards, until ctx ends. It then waits for what it
// has begun, at most a second for functions that ignore the end of their context. Call it after Start.
func (r *Runner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.planner.run(ctx) })
	if r.shards != nil {
		wg.Go(func() { r.shards.run(ctx) })
	}
	wg.Wait()
}

// Shards returns this node's part in the shards, or nil if sharding is off.
func (r *Runner) Shards() *Shards { return r.shards }

// Relinquish releases all shards and acquires no more. It blocks until all are released. If ctx ends first, it
// ends the contexts of the functions that run in them, stops waiting, and returns an error with ctx's cause.
func (r *Runner) Relinquish(ctx context.Context) error {
	if r.shards == nil {
		return nil
	}
	defer context.AfterFunc(ctx, r.shards.stopWaiting)()
	r.shards.relinquishShards()
	return r.shards.awaitIdle(ctx)
}

// Start joins the election; see [leaderelection.Participation.Start].
func (r *Runner) Start(ctx context.Context) error { return r.part.Start(ctx) }

// Withdraw ends this node's candidacy for good and continues to observe; see
// [leaderelection.Participation.Withdraw].
func (r *Runner) Withdraw(ctx context.Context) error { return r.part.Withdraw(ctx) }

// Close ends all watches, stops observing the election and waits for the goroutines of both; see
// [leaderelection.Participation.Close]. It does not wait for Run.
func (r *Runner) Close() {
	r.part.Close()
	r.watches.Close(lifecycle.ErrStopped)
}

// Election returns the election, with its terms, Lead, Watch, Resign and Transfer.
func (r *Runner) Election() *leaderelection.LeaderElection { return r.election }

// Mode returns the rule that currently decides leadership; see [ConsensusManager.Mode].
func (r *Runner) Mode() leaderelection.Mode {
	if s := r.mirror.Snapshot(); s != nil && len(s.Queue) == 0 {
		if s.Acting != nil || r.fallback && r.election.Failed() != nil {
			return leaderelection.ModeFallback
		}
	}
	return leaderelection.ModeElection
}

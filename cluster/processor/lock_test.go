package processor_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

// led leads once with one function and returns its result.
func led(lead processor.LeaderLock, fn func(ctx context.Context, token int64) error) <-chan error {
	return ledWhile(context.Background(), lead, fn)
}

func ledWhile(ctx context.Context, lead processor.LeaderLock, fn func(ctx context.Context,
	token int64) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- lead.Lead(ctx, fn) }()
	return ended
}

// Each lead has a larger token. The lead is released when the function has returned, also if its context ended.
func TestLead(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	ea, _ := stand(t, server.Endpoint(), "a:1")
	eb, _ := stand(t, server.Endpoint(), "b:1")
	locks, shards := &lock.Memory{}, &served{}
	for name, pair := range map[string][2]processor.LeaderLock{
		"election": {processor.Election(ea, "it"), processor.Election(eb, "it")},
		"lock":     {processor.Lock(locks, "it"), processor.Lock(locks, "it")},
		"shard":    {processor.Shard(shards, "it"), processor.Shard(shards, "it")},
	} {
		t.Run(name, func(t *testing.T) {
			var last int64
			for i := range 4 {
				shards.epoch.Store(int64(i + 1))
				ended := led(pair[i%2], func(_ context.Context, token int64) error {
					assert.Greater(t, token, last)
					last = token
					return errOops
				})
				require.ErrorIs(t, <-ended, errOops, "as it was returned")
			}
			ctx, cancel := context.WithCancel(context.Background())
			require.ErrorIs(t, pair[0].Lead(ctx, func(ctx context.Context, _ int64) error {
				cancel()
				<-ctx.Done()
				return context.Cause(ctx)
			}), context.Canceled)
			require.NoError(t, <-led(pair[1], func(context.Context, int64) error { return nil }), "it was given up")

			shards.epoch.Store(0)
			blocked := pair[0]
			if name != "shard" {
				blocked = pair[1]
				inside, end := make(chan struct{}), make(chan struct{})
				ended := led(pair[0], func(context.Context, int64) error { close(inside); <-end; return nil })
				<-inside
				defer func() { close(end); require.NoError(t, <-ended) }()
			}
			cancelled, stop := context.WithCancelCause(context.Background())
			stop(errOops)
			require.ErrorIs(t, blocked.Lead(cancelled, func(context.Context, int64) error { panic("it does not lead") }),
				errOops)
		})
	}
}

// served is a shard that this node serves under an epoch, or never serves if the epoch is 0.
type served struct{ epoch atomic.Int64 }

func (s *served) HoldAlone(ctx context.Context, _, _ string, fn func(ctx context.Context, epoch int64) error) error {
	if e := s.epoch.Load(); e != 0 {
		return fn(ctx, e)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// asked records the keys that were asked for.
type asked struct {
	served
	keys chan string
}

func (a *asked) HoldAlone(ctx context.Context, key, name string, fn func(ctx context.Context,
	epoch int64) error) error {
	a.keys <- key
	return a.served.HoldAlone(ctx, key, name, fn)
}

// A partition with a name of its own uses that name's shard. A partition with a lock uses no shard.
func TestPartitionsAsTheyWereSet(t *testing.T) {
	t.Parallel()
	in := &asked{keys: make(chan string, 1)}
	var locked atomic.Bool
	g, err := processor.Partitions(processor.Config[int]{Name: "views", Handler: (&handled{}).handle,
		Checkpoint: &processor.Memory{}, Source: &numbers{}},
		in, []string{"a", "b"}, func(partition string, c *processor.Config[int]) {
			if partition == "a" {
				c.Name = "other"
				return
			}
			c.LeaderLock = processor.LockFunc(func(ctx context.Context, _ func(context.Context, int64) error) error {
				locked.Store(true)
				<-ctx.Done()
				return ctx.Err()
			})
		})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	require.Equal(t, "other", <-in.keys)
	eventually(t, locked.Load, "it takes its own lock")
	cancel()
	require.NoError(t, <-ended)
}

// A lock that can never be acquired ends the processor with an error.
func TestNoLock(t *testing.T) {
	t.Parallel()
	e, _ := stand(t, etcdtest.Start(t).Endpoint(), "a:1")
	in := processor.Election(e, "it")
	inside := make(chan struct{})
	ended := led(in, func(ctx context.Context, _ int64) error { close(inside); <-ctx.Done(); return context.Cause(ctx) })
	<-inside
	require.NoError(t, e.Close(etcdtest.Context(t)))
	require.ErrorIs(t, <-ended, leaderelection.ErrTermOver)
	off, fresh := notStarted(t, true), notStarted(t, false)
	for says, l := range map[string]processor.LeaderLock{
		"stop":              in,
		"registry is nil":   processor.Lock(nil, "it"),
		"Cluster.Shards":    processor.Shard(nil, "it"),
		"Sharding.Off":      processor.Shard(off.Shards(), "it"),
		"is not started":    processor.Shard(fresh.Shards(), "it"),
		"513 bytes":         processor.Lock(&lock.Memory{}, strings.Repeat("n", 513)),
		"0 bytes":           processor.Election(e, ""),
		"Cluster.Elections": processor.Election[*cluster.Candidate](nil, "it"),
	} {
		p, err := processor.New(processor.Config[int]{Name: "views", Source: &numbers{}, Handler: (&handled{}).handle,
			Checkpoint: &processor.Memory{}, LeaderLock: l})
		require.NoError(t, err)
		other, err := processor.New(processor.Config[int]{Name: "other", Source: &numbers{}, Handler: (&handled{}).handle,
			Checkpoint: &processor.Memory{}})
		require.NoError(t, err)
		g := processor.Group{other, p}
		err = g.Run(etcdtest.Context(t))
		require.ErrorIs(t, err, processor.ErrNoLock, says)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "views")
		require.Equal(t, "other", g.Status()[0].Name)
	}
}

// A lock that cannot be acquired now is retried, and the status gives the reason.
func TestLockThatFails(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	l := processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error {
		if tries.Add(1) < 5 {
			return errOops
		}
		return fn(ctx, int64(tries.Load()))
	})
	done := &handled{}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: done.handle,
		Checkpoint: &processor.Memory{}, LeaderLock: l})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it leads in the end")
	require.EqualValues(t, 4, p.Status().Failures)
	require.Equal(t, "oops", p.Status().LastError)
}

// If etcd refuses a candidacy, the status shows it while the processor waits.
func TestRefusedElection(t *testing.T) {
	t.Parallel()
	e, faults := stand(t, etcdtest.Start(t).Endpoint(), "a:1")
	for range 2 {
		faults.FailNext(etcdfault.OpTxn, rpctypes.ErrPermissionDenied, etcdfault.Putting("/goverse/"))
	}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: (&handled{}).handle,
		Checkpoint: &processor.Memory{},
		LeaderLock: processor.Election(e, "it")})
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it is notified")
	require.Contains(t, p.Status().LastError, rpctypes.ErrPermissionDenied.Error())
	eventually(t, func() bool { return p.Status().Position == "3" }, "it leads in the end")
}

// Without a leader lock, the processor that began last continues; the other is notified and waits.
func TestTwoWithoutALock(t *testing.T) {
	t.Parallel()
	checkpoint, source, done := &processor.Memory{}, &numbers{last: 5}, &handled{}
	cfg := processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: checkpoint,
		Backoff: processor.Backoff{Min: time.Hour}}
	first, _ := run(t, cfg)
	eventually(t, func() bool { return first.Status().Position == "5" }, "the first has handled all")
	cfg.Source = &numbers{last: 5}
	second, _ := run(t, cfg)
	eventually(t, func() bool { return second.Status().Leading }, "the second goes on")
	source.grow(1)
	eventually(t, func() bool { return !first.Status().Leading }, "the first has noticed")
	require.Contains(t, first.Status().LastError, processor.ErrFenced.Error())
	require.True(t, second.Status().Leading)
}

// notStarted returns a cluster that is never started.
func notStarted(t *testing.T, shardingOff bool) *cluster.Cluster {
	t.Helper()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{Sharding: cluster.Sharding{Off: shardingOff}}, n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

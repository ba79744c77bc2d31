package processor_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/elections"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/etcdtest"
)

// led has lead run one function, and says what came of it.
func led(lead processor.LeaderLock, fn func(ctx context.Context, token int64) error) <-chan error {
	return ledWhile(context.Background(), lead, fn)
}

func ledWhile(ctx context.Context, lead processor.LeaderLock, fn func(ctx context.Context, token int64) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- lead.Lead(ctx, fn) }()
	return ended
}

// Each lead has a larger token, and the lead is given up when the function has returned; so it
// is when its context ends.
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
			require.ErrorIs(t, blocked.Lead(cancelled, func(context.Context, int64) error { panic("it does not lead") }), errOops)
		})
	}
}

// served is a shard that is here under an epoch, or never if that is 0.
type served struct{ epoch atomic.Int64 }

func (s *served) HoldAlone(ctx context.Context, _, _ string, fn func(ctx context.Context, epoch int64) error) error {
	if e := s.epoch.Load(); e != 0 {
		return fn(ctx, e)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// asked is which keys were asked for.
type asked struct {
	served
	keys chan string
}

func (a *asked) HoldAlone(ctx context.Context, key, name string, fn func(ctx context.Context, epoch int64) error) error {
	a.keys <- key
	return a.served.HoldAlone(ctx, key, name, fn)
}

// A partition that has another name has that name's shard; one that has a lock has no shard.
func TestPartitionsAsTheyWereSet(t *testing.T) {
	t.Parallel()
	in := &asked{keys: make(chan string, 1)}
	var locked atomic.Bool
	g, err := processor.Partitions(processor.Config[int]{Name: "views", Handler: (&handled{}).handle, Checkpoint: &processor.Memory{}, Source: &numbers{}},
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

// The handler's context ends when the shard is to move, not when the drain time-out has passed;
// then the other begins, which has waited for the shard.
func TestShardMoves(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Hour, DrainTimeout: time.Hour}
	}))
	type term struct {
		node  int
		token int64
	}
	begun := make(chan term)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	var ended []<-chan error
	for i, n := range c.Nodes() {
		ended = append(ended, ledWhile(ctx, processor.Shard(n.Cluster().Shards(), "it"), func(ctx context.Context, token int64) error {
			begun <- term{i, token}
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}
	first := <-begun
	c.Node(first.node).Stop()
	second := <-begun
	require.NotEqual(t, first.node, second.node)
	require.Greater(t, second.token, first.token)
	require.ErrorIs(t, <-ended[first.node], consensusmanager.ErrNotOwner)
	cancel()
	require.ErrorIs(t, <-ended[second.node], context.Canceled)
}

// failingShards cannot say.
type failingShards struct{}

func (*failingShards) HoldAlone(context.Context, string, string, func(context.Context, int64) error) error {
	return errOops
}

func TestShardThatFails(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, <-led(processor.Shard(&failingShards{}, "it"), nil), errOops)
}

// What cannot be had ends the processor, and says so.
func TestNoLock(t *testing.T) {
	t.Parallel()
	e, _ := stand(t, etcdtest.Start(t).Endpoint(), "a:1")
	in := processor.Election(e, "it")
	inside := make(chan struct{})
	ended := led(in, func(ctx context.Context, _ int64) error { close(inside); <-ctx.Done(); return context.Cause(ctx) })
	<-inside
	require.NoError(t, e.Close(etcdtest.Context(t)))
	require.ErrorIs(t, <-ended, elections.ErrTermOver)
	for says, l := range map[string]processor.LeaderLock{
		"stop":                 in,
		"registry is nil":      processor.Lock(nil, "it"),
		"shards; Cluster":      processor.Shard(nil, "it"),
		"Sharding.Off":         processor.Shard((*consensusmanager.Shards)(nil), "it"),
		"513 bytes":            processor.Lock(&lock.Memory{}, strings.Repeat("n", 513)),
		"0 bytes":              processor.Election(e, ""),
		"the *cluster.Cluster": processor.Election(nil, "it"),
	} {
		p, err := processor.New(processor.Config[int]{Name: "views", Source: &numbers{}, Handler: (&handled{}).handle,
			Checkpoint: &processor.Memory{}, LeaderLock: l})
		require.NoError(t, err)
		other, err := processor.New(processor.Config[int]{Name: "other", Source: &numbers{}, Handler: (&handled{}).handle, Checkpoint: &processor.Memory{}})
		require.NoError(t, err)
		g := processor.Group{other, p}
		err = g.Run(etcdtest.Context(t))
		require.ErrorIs(t, err, processor.ErrNoLock, says)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "views")
		require.Equal(t, "other", g.Status()[0].Name)
	}
}

// A lock that cannot be had at present is tried on, and the status says why.
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
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: done.handle, Checkpoint: &processor.Memory{}, LeaderLock: l})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it leads in the end")
	require.EqualValues(t, 4, p.Status().Failures)
	require.Equal(t, "oops", p.Status().LastError)
}

// An election that etcd refuses is no secret while the processor waits.
func TestRefusedElection(t *testing.T) {
	t.Parallel()
	e, faults := stand(t, etcdtest.Start(t).Endpoint(), "a:1")
	for range 2 {
		faults.FailNext(clustertest.OpTxn, rpctypes.ErrPermissionDenied, clustertest.Putting("/goverse/"))
	}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: (&handled{}).handle, Checkpoint: &processor.Memory{},
		LeaderLock: processor.Election(e, "it")})
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it is told")
	require.Contains(t, p.Status().LastError, rpctypes.ErrPermissionDenied.Error())
	eventually(t, func() bool { return p.Status().Position == "3" }, "it leads in the end")
}

// Without a leader lock the one that began last goes on; the other is told, and waits.
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

// A node that has stopped does not send anybody to itself.
func TestShardOfAStoppedNode(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Millisecond}
	}))
	n := c.Node(0)
	shards := n.Cluster().Shards()
	require.NoError(t, <-led(processor.Shard(shards, "it"), func(context.Context, int64) error { return nil }), "it is here")
	n.Stop()
	err := <-led(processor.Shard(shards, "it"), nil)
	require.ErrorIs(t, err, processor.ErrNoLock)
	require.ErrorIs(t, err, consensusmanager.ErrStopped)
	var not *consensusmanager.NotOwnerError
	require.ErrorAs(t, err, &not)
	require.Empty(t, not.Owner)
	require.ErrorContains(t, err, "was this node's, which hands it over")
}

// Of two processors of one name on one shard the second waits until the first ends, as if another
// node had the shard; one of another name does not.
func TestTwoOnOneShard(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Millisecond}
	}))
	source, done, late := &numbers{last: 5}, &handled{}, &handled{}
	cfg := processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: &processor.Memory{}, BatchSize: 1,
		LeaderLock: processor.Shard(c.Node(0).Cluster().Shards(), "it")}
	first, endFirst := run(t, cfg)
	eventually(t, func() bool { return first.Status().Position == "5" }, "the first has handled all")
	cfg.Handler = late.handle
	cfg.LeaderLock = processor.Shard(c.Node(0).Cluster().Shards(), "it")
	second, _ := run(t, cfg)
	cfg.Name, cfg.Handler = "other", (&handled{}).handle
	other, _ := run(t, cfg)
	eventually(t, func() bool { return other.Status().Leading }, "it has another name")
	source.grow(2000)
	eventually(t, func() bool { return slices.Contains(append(done.all(), late.all()...), 2005) }, "all is handled")
	require.False(t, second.Status().Leading)
	require.Zero(t, first.Status().Failures+second.Status().Failures, "they do not fight")
	require.Equal(t, upTo(2005), done.all())
	endFirst()
	source.grow(1)
	eventually(t, func() bool { return second.Status().Position == "2006" }, "the second goes on")
	require.Equal(t, []int{2006}, late.all())
}

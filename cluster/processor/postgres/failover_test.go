//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/processtest"
	"github.com/goverse/goverse/internal/test/testbed"
	"github.com/goverse/goverse/internal/wait"
)

// process is one process that stands in an election.
type process struct {
	*processtest.Process
	p  *processor.Processor[int]
	in *elections.Elections
}

func startProcess(t *testing.T, endpoint, address string, cfg processor.Config[int]) *process {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	q := &process{}
	q.Process = processtest.Start(t, endpoint, 2*time.Second,
		func(p *processtest.Process) (func(context.Context), error) {
			queues, err := testbed.NewEngineWithin(300*time.Millisecond, p, keys.Elections())
			if err != nil {
				return nil, err
			}
			q.in, err = elections.New(elections.Config{Queues: queues.Queues(keys.Elections()),
				Address: address, WorkTimeout: 500 * time.Millisecond})
			return wait.RunAll(queues.Run, q.in.Run), err
		})
	cfg.LeaderLock = processor.Election(q.in, "views")
	q.p, _ = run(t, cfg)
	return q
}

// Leaders resign repeatedly and one is cut off from etcd while events are handled. Each event takes effect
// once, in order.
func (s *testBed) failover(t *testing.T) {
	server := etcdtest.Start(t)
	handler, all := s.effects(t)
	source := &growing{}
	cfg := processor.Config[int]{Name: "views", Source: source, Checkpoint: s.checkpoints(t), Handler: handler,
		BatchSize:    7,
		PollInterval: 5 * time.Millisecond, Backoff: processor.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}}
	both := []*process{startProcess(t, server.Endpoint(), "a:1", cfg), startProcess(t, server.Endpoint(), "b:1", cfg)}
	leader := func() (at int) {
		require.Eventually(t, func() bool {
			at = slices.IndexFunc(both, func(q *process) bool { return q.p.Status().Leading })
			return at >= 0
		}, patience, time.Millisecond, "somebody processes")
		return at
	}
	handled := func(n int) {
		source.grow(n)
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(both,
				func(q *process) bool { return string(q.p.Status().Position) == strconv.Itoa(source.size()) })
		}, patience, time.Millisecond, "all is handled")
	}
	terms := map[int64]bool{}
	for range 20 {
		now := both[leader()]
		terms[now.p.Status().Token] = true
		source.grow(40) // add events while others are handled
		e, err := now.in.Stand("views")
		require.NoError(t, err)
		_ = e.Resign(etcdtest.Context(t)) // the lead may have changed in the meantime
	}
	require.Greater(t, len(terms), 10, "leaders changed")
	handled(10)

	old := leader()
	both[old].Faults.CutOff()
	source.grow(40)
	require.Eventually(t, func() bool { return both[1-old].p.Status().Leading }, patience, time.Millisecond,
		"the other takes over")
	handled(10)
	both[old].Faults.Reconnect()
	handled(10)
	require.Equal(t, upTo(source.size()), all())
}

// growing is a source of numbers to which more can be added.
type growing struct {
	mu sync.Mutex
	in numbers
}

func (g *growing) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in.Read(ctx, after, limit)
}

func (g *growing) grow(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in.last += n
}

func (g *growing) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in.last
}

// The partitions of a source spread over the nodes by their shards. They move when a third node joins and one
// leaves. Each is handled in order, and no event is handled twice.
func (s *testBed) partitions(t *testing.T) {
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 64, Window: 50 * time.Millisecond}
	}))
	table := "effects_" + strconv.FormatInt(s.last.Add(1), 10)
	_, err := s.pool.Exec(etcdtest.Context(t), "create table "+table+" (n bigserial, part text, event int)")
	require.NoError(t, err)
	checkpoint := s.checkpoints(t)
	const parts = 12
	names, sources := []string{}, map[string]*growing{}
	for i := range parts {
		names = append(names, strconv.Itoa(i))
		sources[names[i]] = &growing{}
	}
	groups, ended := map[*clustertest.Node]processor.Group{}, map[*clustertest.Node]chan error{}
	start := func(n *clustertest.Node) {
		g, err := processor.Partitions(processor.Config[int]{Name: "views", Checkpoint: checkpoint, BatchSize: 5,
			PollInterval: 5 * time.Millisecond,
			Backoff:      processor.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}}, n.Cluster().Shards(), names,
			func(part string, cfg *processor.Config[int]) {
				cfg.Source = sources[part]
				cfg.Handler = func(ctx context.Context, e processor.Event[int]) error {
					_, err := postgres.Tx(ctx).Exec(ctx, "insert into "+table+" (part, event) values ($1, $2)", part, e.Value)
					return err
				}
			})
		require.NoError(t, err)
		groups[n] = g
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		came := make(chan error, 1)
		ended[n] = came
		wg.Go(func() { came <- g.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			wg.Wait()
		})
	}
	grow := func() {
		for _, source := range sources {
			source.grow(30)
		}
	}
	leads := func(n *clustertest.Node) (count int) {
		for _, status := range groups[n].Status() {
			if status.Leading {
				count++
			}
		}
		return count
	}
	spread := func(nodes ...*clustertest.Node) {
		c.Eventually(func() bool {
			sum := 0
			for _, n := range nodes {
				count := leads(n)
				if count == 0 {
					return false
				}
				sum += count
			}
			return sum == parts
		}, "each partition is processed once, and each node has some")
	}
	for _, n := range c.Nodes() {
		start(n)
	}
	grow()
	spread(c.Node(0), c.Node(1))
	third := c.AddNode()
	start(third)
	grow()
	spread(c.Node(0), c.Node(1), third)
	grow()
	left := c.Node(0)
	left.Stop()
	require.ErrorIs(t, <-ended[left], processor.ErrNoLock, "it does not wait for a node that has stopped")
	grow()
	spread(c.Node(1), third)
	c.Eventually(func() bool {
		var n int
		require.NoError(t, s.pool.QueryRow(etcdtest.Context(t), "select count(*) from "+table).Scan(&n))
		return n >= parts*sources["0"].size()
	}, "all is handled")
	for _, part := range names {
		rows, err := s.pool.Query(etcdtest.Context(t), "select event from "+table+" where part = $1 order by n", part)
		require.NoError(t, err)
		var got []int
		for rows.Next() {
			var n int
			require.NoError(t, rows.Scan(&n))
			got = append(got, n)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, upTo(sources[part].size()), got, fmt.Sprintf("partition %s", part))
	}
}

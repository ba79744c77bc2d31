package leaderelection_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
)

// alone is a process's part in an election by itself.
type alone struct {
	*leaderelection.LeaderElection
	*leaderelection.Runner
}

// takePart returns a started part in the election under /alone. It is stopped at the end of the test.
func takePart(t *testing.T, client *clientv3.Client, id string, change ...func(*leaderelection.Config)) alone {
	t.Helper()
	cfg := leaderelection.Config{Client: client, EtcdPrefix: "/alone", ID: id} // a TTL that a busy machine does not use up
	for _, c := range change {
		c(&cfg)
	}
	election, runner, err := leaderelection.New(cfg)
	require.NoError(t, err)
	require.NoError(t, runner.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, runner.Stop(context.Background())) })
	return alone{election, runner}
}

// awaitLeads waits until a leads.
func (a alone) awaitLeads(t *testing.T) leaderelection.Term {
	t.Helper()
	var term leaderelection.Term
	require.NoError(t, a.Lead(etcdtest.Context(t), func(_ context.Context, t leaderelection.Term) error {
		term = t
		return nil
	}))
	return term
}

// awaitLeader waits until a names the leader.
func (a alone) awaitLeader(t *testing.T, id string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	seen, err := a.Watch(ctx)
	require.NoError(t, err)
	for l := range seen {
		if l.Address == id {
			return
		}
	}
	require.FailNow(t, "not the leader named", id)
}

func TestConfigOfAnElectionAloneIsChecked(t *testing.T) {
	for _, alter := range []func(*leaderelection.Config){
		func(c *leaderelection.Config) { c.EtcdPrefix = "" },
		func(c *leaderelection.Config) { c.EtcdPrefix = "without slash" },
		func(c *leaderelection.Config) { c.EtcdAddress = " " },
		func(c *leaderelection.Config) { c.EtcdAddress = "localhost" },
		func(c *leaderelection.Config) { c.TTL = time.Millisecond },
		func(c *leaderelection.Config) { c.TTL = 1500 * time.Millisecond },
		func(c *leaderelection.Config) { c.TTL = 48 * time.Hour },
		func(c *leaderelection.Config) { c.WorkTimeout = -1 },
	} {
		cfg := leaderelection.Config{EtcdPrefix: "/alone"}
		alter(&cfg)
		_, _, err := leaderelection.New(cfg)
		require.ErrorIs(t, err, leaderelection.ErrBadConfig, "%+v", cfg)
	}
	_, runner, err := leaderelection.New(leaderelection.Config{EtcdPrefix: "/alone"})
	require.NoError(t, err)
	require.NoError(t, runner.Stop(t.Context()), "without a start")
	require.NoError(t, runner.Stop(t.Context()))
	require.ErrorIs(t, runner.Start(t.Context()), leaderelection.ErrStarted)
}

// A Stop ends a Start that waits for etcd.
func TestStopDuringStart(t *testing.T) {
	nobody, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	var log logtest.Buffer
	_, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: nobody, EtcdPrefix: "/alone",
		Logger: log.Logger()})
	require.NoError(t, err)
	started := make(chan error, 1)
	go func() { started <- runner.Start(context.Background()) }()
	log.Await(t, nobody) // etcd does not answer there
	require.ErrorIs(t, runner.Start(t.Context()), leaderelection.ErrStarted)
	require.NoError(t, runner.Stop(etcdtest.Context(t)))
	require.ErrorIs(t, <-started, leaderelection.ErrStopped)
}

// Three processes: the leader resigns, transfers and stops; tokens grow, and writes of an old term are refused.
func TestElectionAlone(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := takePart(t, client, "a")
	first := a.awaitLeads(t)
	b := takePart(t, client, "b")
	c := takePart(t, client, "c")
	b.awaitLeader(t, "a")
	require.True(t, a.IsLeader())
	require.True(t, b.Leader().Member)
	require.ErrorIs(t, b.Start(ctx), leaderelection.ErrStarted)

	require.NoError(t, a.Resign(ctx))
	second := b.awaitLeads(t)
	require.Greater(t, second.Token(), first.Token())
	_, err := first.Txn(ctx).Then(clientv3.OpPut("/stale", "")).Commit()
	require.ErrorIs(t, err, leaderelection.ErrTermOver)

	require.NoError(t, a.Transfer(ctx, "a"), "any process may ask for it")
	third := a.awaitLeads(t)
	require.Greater(t, third.Token(), second.Token())

	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.LeadEach(ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(inside)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-inside
	require.NoError(t, a.Stop(ctx))
	require.ErrorIs(t, <-ended, leaderelection.ErrStopped)
	require.False(t, a.IsLeader())
	_, err = a.Watch(ctx)
	require.ErrorIs(t, err, leaderelection.ErrStopped)
	_, err = c.WaitForLeader(ctx)
	require.NoError(t, err)
	require.NoError(t, b.Stop(ctx))
	c.awaitLeads(t)
	require.NoError(t, c.Stop(ctx))
	left, err := client.Get(ctx, "/alone", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, left.Kvs, "nothing is left")
}

// A process whose view still shows its former term asks for a transfer to itself: it leads when Transfer returns nil.
func TestTransferToItselfWithAnOldView(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, client *clientv3.Client, a alone){
		"resigned": func(t *testing.T, _ *clientv3.Client, a alone) { require.NoError(t, a.Resign(etcdtest.Context(t))) },
		"session lost": func(t *testing.T, client *clientv3.Client, a alone) {
			former := clientv3.LeaseID(a.Leader().Lease)
			_, err := client.Revoke(t.Context(), former)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				resp, err := client.Get(t.Context(), "/alone/nodes/a")
				require.NoError(t, err)
				return len(resp.Kvs) == 1 && resp.Kvs[0].Lease != int64(former)
			}, time.Minute, time.Millisecond, "registered again")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := etcdtest.Context(t)
			server := etcdtest.Start(t)
			client := etcdtest.Dial(t, server.Endpoint())
			faults := clustertest.Inject(client)
			other := etcdtest.Dial(t, server.Endpoint())
			a := takePart(t, client, "a", func(cfg *leaderelection.Config) { cfg.TTL = 9 * time.Second })
			first := a.awaitLeads(t)
			b := takePart(t, other, "b")
			faults.FreezeWatch() // a reads the range anew a third of a TTL after it has learnt of a change
			lose(t, other, a)
			b.awaitLeads(t)
			// transfer repeats the request while a sees no session of its own, or no member on it.
			transfer := func(limit time.Duration) (err error) {
				require.Eventually(t, func() bool {
					ctx, cancel := context.WithTimeout(ctx, limit)
					defer cancel()
					err = a.Transfer(ctx, "a")
					return !errors.Is(err, leaderelection.ErrNoLeader) && !errors.Is(err, leaderelection.ErrNotMember)
				}, time.Minute, time.Millisecond)
				return err
			}
			require.ErrorIs(t, transfer(50*time.Millisecond), leaderelection.ErrNotMoved)
			faults.ThawWatch()
			require.NoError(t, transfer(time.Minute))
			require.Greater(t, a.awaitLeads(t).Token(), first.Token())
		})
	}
}

// An identity that a living process has is refused, and one that a process left by a crash is free after a TTL.
func TestIdentityThatIsTaken(t *testing.T) {
	pace.Parallel(t)
	client := etcdtest.Client(t)
	takePart(t, client, "same", func(cfg *leaderelection.Config) { cfg.TTL = 2 * time.Second })
	_, second, err := leaderelection.New(leaderelection.Config{Client: client, EtcdPrefix: "/alone", ID: "same",
		TTL: 2 * time.Second})
	require.NoError(t, err)
	err = second.Start(etcdtest.Context(t))
	require.ErrorIs(t, err, leaderelection.ErrIDTaken)
	require.NotContains(t, err.Error(), "waited for")

	lease, err := client.Grant(t.Context(), 2)
	require.NoError(t, err)
	record := state.Record{InstanceID: "x", Lease: int64(lease.ID), TTL: 2, ElectionOnly: true}
	_, err = client.Put(t.Context(), "/alone/nodes/crashed", record.Encode(), clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	takePart(t, client, "crashed")
}

// A process does not take part where the other members use a format that it does not read, and writes nothing.
func TestNewerFormatKeepsAnElectionOut(t *testing.T) {
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	newer := state.Record{InstanceID: "x", ElectionOnly: true, Formats: format.Range{Oldest: 2, Newest: 2}}
	_, err := client.Put(ctx, "/alone/nodes/newer", newer.Encode())
	require.NoError(t, err)
	_, runner, err := leaderelection.New(leaderelection.Config{Client: client, EtcdPrefix: "/alone", ID: "older"})
	require.NoError(t, err)
	err = runner.Start(ctx)
	require.NoError(t, ctx.Err(), "it does not wait")
	require.ErrorIs(t, err, leaderelection.ErrFormat)
	require.ErrorContains(t, err, "by its member newer, has format 2")
	resp, err := client.Get(ctx, "/alone/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
}

// A session that is lost is replaced, and the process queues again.
func TestLostSessionOfAnElectionAlone(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := takePart(t, client, "a")
	first := a.awaitLeads(t)
	_, err := client.Revoke(ctx, clientv3.LeaseID(a.Leader().Lease))
	require.NoError(t, err)
	<-first.Context().Done()
	require.Greater(t, a.awaitLeads(t).Token(), first.Token())
}

// Processes of an election only, nodes and other programs queue together. While such a process leads, a node plans the
// shards, and the nodes serve them all.
func TestElectionAloneBesideNodes(t *testing.T) {
	pace.Parallel(t)
	const shards = 16
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding.Shards = shards }))
	client := c.Client()
	ctx := etcdtest.Context(t)
	a := takePart(t, client, "a", func(cfg *leaderelection.Config) { cfg.EtcdPrefix = clustertest.Prefix })
	a.awaitLeads(t)
	n, other := c.AddNode(), c.AddNode()
	require.Equal(t, "a", n.Cluster().GetLeaderNode())
	c.Eventually(func() bool {
		return n.Cluster().Status().Shards.Serving+other.Cluster().Status().Shards.Serving == shards
	}, "all shards served while a process leads that plans none")

	require.ErrorIs(t, a.Transfer(ctx, "nobody"), leaderelection.ErrNotMember)
	require.NoError(t, n.Cluster().Transfer(ctx, n.Address()))
	c.WaitLeaderIs(n.Address())
	a.awaitLeader(t, n.Address())
	require.NoError(t, n.Cluster().Transfer(ctx, "a"))
	a.awaitLeads(t)

	s, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	require.NoError(t, err)
	outside := concurrency.NewElection(s, clustertest.Prefix+"/leader")
	won := make(chan error, 1)
	go func() { won <- outside.Campaign(ctx, "outside") }()
	other.Stop()
	n.Stop()
	c.Eventually(func() bool {
		queue, err := client.Get(ctx, clustertest.Prefix+"/leader/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && queue.Count == 2
	}, "the other program queued")
	require.NoError(t, a.Resign(ctx))
	require.NoError(t, <-won)
	a.awaitLeader(t, "outside")
	require.False(t, a.Leader().Member)
	require.NoError(t, outside.Resign(ctx))
	a.awaitLeads(t)
	require.NoError(t, s.Close())
}

// A stop while etcd is away ends when WorkTimeout has passed, although there is no session any more.
func TestStopWithWorkWhileEtcdIsAway(t *testing.T) {
	pace.Parallel(t)
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	faults := clustertest.Inject(client)
	le, runner, err := leaderelection.New(leaderelection.Config{Client: client, EtcdPrefix: "/away", ID: "a",
		TTL: 2 * time.Second, WorkTimeout: time.Second})
	require.NoError(t, err)
	require.NoError(t, runner.Start(ctx))
	ended, goOn, returned, stopped := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		returned <- le.Lead(ctx, func(ctx context.Context, _ leaderelection.Term) error {
			faults.CutOff()
			<-ctx.Done()
			close(ended)
			<-goOn
			return ctx.Err()
		})
	}()
	<-ended
	go func() { stopped <- runner.Stop(context.WithoutCancel(ctx)) }()
	select {
	case err = <-stopped:
	case <-time.After(20 * time.Second):
	}
	faults.Reconnect()
	require.ErrorIs(t, err, leaderelection.ErrWorkRuns)
	close(goOn)
	require.ErrorIs(t, <-returned, leaderelection.ErrTermOver)
}

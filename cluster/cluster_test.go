package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/porttest"
	"github.com/goverse/goverse/node"
)

func TestThreeNodesAgreeAndHandOver(t *testing.T) {
	etcd := etcdtest.Start(t)
	a := start(t, etcd, func(c *Config) {
		c.HTTPAddress, c.Labels, c.Weight, c.Version = "127.0.0.1:48001", map[string]string{"zone": "x"}, 3, "v1"
	})
	awaitLeader(t, a, a.address())
	b, c := start(t, etcd), start(t, etcd)
	for _, x := range []*Cluster{a, b, c} {
		awaitLeader(t, x, a.address())
		require.Equal(t, a.address(), x.GetLeaderNode())
		require.Equal(t, x == a, x.GetConsensusManager().IsLeader())
		require.Equal(t, x == a, x.IsLeader())
		awaitState(t, x, func(s *state.Snapshot) bool { return len(s.Members) == 3 && len(s.Queue) == 3 })
		st := x.Status()
		require.Equal(t, []string{a.address(), b.address(), c.address()}, st.Queue)
		require.True(t, st.Ready)
		require.Equal(t, leaderelection.ModeElection, st.Mode)
		require.Equal(t, x == a, st.State == StateLeader)
	}
	m := inspect.Snapshot(b).Member(a.address())
	require.Equal(t, "x", m.Labels["zone"])
	require.Equal(t, 3, m.Weight)
	require.Equal(t, a.Node().InstanceID(), m.InstanceID)

	info, err := a.LeaderInfo(etcdtest.Context(t))
	require.NoError(t, err)
	require.False(t, info.Estimated)
	// A renewal is at most a third of the TTL old, and etcd counts whole seconds.
	require.WithinDuration(t, time.Now().Add(ttl*time.Second), info.ExpiresAt, ttl*time.Second/2)
	info, err = b.LeaderInfo(etcdtest.Context(t))
	require.NoError(t, err)
	require.True(t, info.Estimated)
	require.Equal(t, "127.0.0.1:48001", info.HTTPAddress)
	require.WithinDuration(t, time.Now().Add(ttl*time.Second), info.ExpiresAt, ttl*time.Second*2/3)

	require.NoError(t, a.Stop(etcdtest.Context(t)))
	awaitLeader(t, c, b.address())
	require.Equal(t, "", a.GetLeaderNode())
	require.False(t, a.IsLeader())
	require.Equal(t, StateStopped, a.Status().State)
	require.NoError(t, a.Stop(etcdtest.Context(t)), "stopping twice is harmless")
	err = a.Start(etcdtest.Context(t))
	require.ErrorIs(t, err, ErrStarted)
	require.ErrorIs(t, err, ErrStopped)
}

// When Stop returns, etcd has nothing of the node except the cluster's shard map.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	c := start(t, etcd)
	awaitState(t, c, func(s *state.Snapshot) bool { return s.ShardMap != nil })
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	require.Empty(t, keysLeft(t, etcd))
	leases, err := etcd.Client().Leases(etcdtest.Context(t))
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
}

// keysLeft returns all keys except the shard map and the event log, which belong to no node.
func keysLeft(t *testing.T, etcd *etcdtest.Server) []string {
	t.Helper()
	resp, err := etcd.Client().Get(etcdtest.Context(t), "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	var left []string
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); key != "/goverse/shards/map" && !strings.HasPrefix(key, "/goverse/events/") {
			left = append(left, key)
		}
	}
	return left
}

func TestNeverStarted(t *testing.T) {
	c := newCluster(t, etcdtest.Start(t), "127.0.0.1:0")
	require.False(t, c.GetConsensusManager().IsLeader())
	require.Equal(t, "", c.GetConsensusManager().GetLeaderNode())
	require.ErrorIs(t, c.Resign(etcdtest.Context(t)), ErrNotStarted)
	_, err := c.WaitForLeader(etcdtest.Context(t))
	require.ErrorIs(t, err, ErrNotStarted)
	require.Equal(t, StateStarting, c.Status().State)
	address := c.address()
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	porttest.RequireFree(t, address)
}

// A node belongs to the cluster that started it. It runs on when another cluster fails to start it.
func TestANodeIsForOneCluster(t *testing.T) {
	etcd := etcdtest.Start(t)
	first := start(t, etcd)
	second, err := NewClusterWithNode(Config{Client: etcd.Client(), EtcdPrefix: "/other"}, first.Node())
	require.NoError(t, err)
	require.ErrorIs(t, second.Start(etcdtest.Context(t)), node.ErrStarted)
	require.Equal(t, StateStopped, second.Status().State)
	select {
	case <-first.Node().Done():
		t.Fatal("the node of the first cluster was stopped")
	default:
	}
}

func TestEtcdUnreachableAtStart(t *testing.T) {
	for _, user := range []string{"", "u"} {
		n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
		require.NoError(t, err)
		c, err := NewClusterWithNode(Config{EtcdAddress: "127.0.0.1:1", Username: user, Password: user}, n)
		require.NoError(t, err)
		meter := pace.StartMeter(t)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		err = c.Start(ctx)
		cancel()
		require.ErrorIs(t, err, ErrEtcdUnreachable)
		require.EqualError(t, err, "etcd cannot be reached at 127.0.0.1:1: nothing listens there: check EtcdAddress and "+
			"that etcd runs there (dial tcp 127.0.0.1:1: connect: connection refused)")
		require.Less(t, time.Since(deadlineOf(ctx)), meter.Scale(2*time.Second))
		require.NoError(t, c.Stop(etcdtest.Context(t)))
	}
}

func deadlineOf(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

func TestAddressOfALivingNodeIsRefused(t *testing.T) {
	etcd := etcdtest.Start(t)
	a := start(t, etcd)
	awaitLeader(t, a, a.address())
	// The same address from another process, which listens elsewhere and claims a's address, where a answers.
	n, err := node.NewNode(node.Config{AdvertiseAddress: a.address(), ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	b, err := NewClusterWithNode(a.cfg, n)
	require.NoError(t, err)
	err = b.Start(etcdtest.Context(t))
	require.ErrorIs(t, err, ErrAddressTaken)
	require.True(t, a.IsLeader(), "the first is not harmed")
	require.Len(t, awaitState(t, a, func(s *state.Snapshot) bool { return len(s.Accusations) == 0 }).Members, 1)
}

// ghost registers a member like one left by a killed process.
func ghost(t *testing.T, client *clientv3.Client, address, instance string, ttl int64) clientv3.LeaseID {
	t.Helper()
	ctx := etcdtest.Context(t)
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	lease, err := client.Grant(ctx, ttl)
	require.NoError(t, err)
	record := state.Record{InstanceID: instance, Lease: int64(lease.ID), TTL: ttl}
	_, err = client.Put(ctx, keys.Node(address), record.Encode(), clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	_, err = client.Put(ctx, keys.Candidate(int64(lease.ID)), address, clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	return lease.ID
}

func TestRestartAtTheAddressOfADeadNodeTakesOverAtOnce(t *testing.T) {
	etcd := etcdtest.Start(t)
	c := newCluster(t, etcd, "127.0.0.1:0")
	ghost(t, etcd.Client(), c.address(), "gone", 600)
	require.NoError(t, c.Start(etcdtest.Context(t)), "long before the lease of 600 s runs out")
	awaitLeader(t, c, c.address())
	require.Len(t, inspect.Snapshot(c).Queue, 1)
	leases, err := etcd.Client().Leases(etcdtest.Context(t))
	require.NoError(t, err)
	require.Len(t, leases.Leases, 1)
}

// Two hosts can both be "localhost". The accused is not at the address that answers; it is alive and refutes.
func TestAccusedThatLivesRefutes(t *testing.T) {
	etcd := etcdtest.Start(t)
	a := start(t, etcd)
	other, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	// Register a's membership under other's name: a lives on "another host".
	require.NoError(t, a.Stop(etcdtest.Context(t)))
	n, err := node.NewNode(node.Config{AdvertiseAddress: other.AdvertiseAddress(), ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	far, err := NewClusterWithNode(a.cfg, n)
	require.NoError(t, err)
	require.NoError(t, far.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, far.Stop(etcdtest.Context(t))) })
	awaitLeader(t, far, far.address())

	near, err := NewClusterWithNode(a.cfg, other)
	require.NoError(t, err)
	require.ErrorIs(t, near.Start(etcdtest.Context(t)), ErrAddressTaken)
	require.True(t, far.IsLeader())
}

// If an address does not answer, the member is lost only with its lease.
func TestSilentAddressWaitsForTheLease(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	n, err := node.NewNode(node.Config{AdvertiseAddress: "192.0.2.1:1", ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	lease := ghost(t, etcd.Client(), "192.0.2.1:1", "silent", 600)
	c, err := NewClusterWithNode(Config{EtcdAddress: etcd.Endpoint(), LeaderElectionTTL: 2}, n)
	require.NoError(t, err)
	started := make(chan error, 1)
	go func() { started <- c.Start(etcdtest.Context(t)) }()
	select {
	case err := <-started:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(1500 * time.Millisecond):
	}
	_, err = etcd.Client().Revoke(etcdtest.Context(t), lease)
	require.NoError(t, err)
	require.NoError(t, <-started)
	require.NoError(t, c.Stop(etcdtest.Context(t)))
}

func TestTransferAndResign(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	log := &logtest.Buffer{}
	logged := func(cfg *Config) { cfg.Logger = log.Logger() }
	a := start(t, etcd, logged)
	b, c, d := start(t, etcd), start(t, etcd, logged), start(t, etcd)
	awaitState(t, b, func(s *state.Snapshot) bool { return len(s.Queue) == 4 })
	require.NoError(t, b.Transfer(ctx, c.address()), "any member may ask")
	awaitLeader(t, c, c.address())
	require.Equal(t, leaderelection.ReasonRequested, electionOf(a).LastEnd().Reason)
	log.Await(t, `reason="transfer to `+c.address()+` requested"`)
	require.NoError(t, b.Transfer(ctx, c.address()), "it leads already")
	require.ErrorIs(t, b.Transfer(ctx, "127.0.0.1:1"), leaderelection.ErrNotMember)
	awaitState(t, a, func(s *state.Snapshot) bool { return len(s.Queue) == 4 && s.Request == nil })

	o := start(t, etcd, func(c *Config) { c.Observer = true })
	err := o.Transfer(ctx, o.address())
	require.ErrorIs(t, err, leaderelection.ErrNotCandidate)
	require.ErrorContains(t, err, "(an observer): choose a candidate; goversed nodes shows them")
	require.Equal(t, StateFollower, o.Status().State)

	before := c.Leader().Token
	leader, err := request.AwaitHandover(ctx, o.parts.Load().client, o.parts.Load().Mirror, state.RequestResign,
		"")
	require.NoError(t, err)
	require.Equal(t, d.address(), leader.Address, "b let c pass, and waits at the tail since")
	require.Greater(t, leader.Token, before)
	log.Await(t, `reason="resign requested"`)
	awaitLeader(t, d, d.address())
	require.NoError(t, d.Resign(ctx))
	require.ErrorIs(t, d.Resign(ctx), leaderelection.ErrNotLeader)
}

// A member that has just given way is briefly not queued. A transfer to it in that moment does not fail.
func TestTransferToOneThatIsQueueingAgain(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	a := start(t, etcd)
	b := start(t, etcd)
	awaitState(t, b, func(s *state.Snapshot) bool { return len(s.Queue) == 2 })
	for range 5 {
		awaitLeader(t, a, a.address())
		token := a.Leader().Token
		require.NoError(t, b.Transfer(ctx, b.address()))
		awaitState(t, b, func(s *state.Snapshot) bool { return new(state.QueuePlace).Find(s, token) == nil })
		require.NoError(t, b.Transfer(ctx, a.address()), "it queues again within moments")
	}
	awaitLeader(t, a, a.address())

	// The wait is limited: a transfer to a node that cannot queue now ends with its context.
	late := start(t, etcd)
	awaitState(t, b, func(s *state.Snapshot) bool { return s.Member(late.address()) != nil && len(s.Queue) == 3 })
	require.NoError(t, late.parts.Load().Consensus.Withdraw(ctx))
	awaitState(t, b, func(s *state.Snapshot) bool { return len(s.Queue) == 2 })
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	err := b.Transfer(brief, late.address())
	require.ErrorIs(t, err, leaderelection.ErrNotMoved)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	moved := make(chan error, 1)
	go func() { moved <- electionOf(b).Transfer(context.Background(), late.address()) }()
	require.NoError(t, b.Stop(ctx))
	select {
	case err := <-moved:
		require.Error(t, err, "nobody is left to hand over by")
	case <-ctx.Done():
		t.Fatal("a transfer outlives its election")
	}
	late.parts.Load().Membership.MarkStopping()
	require.ErrorIs(t, a.Transfer(ctx, late.address()), leaderelection.ErrNotCandidate, "it is stopping")
}

func TestLostSessionIsReplacedWithoutARestart(t *testing.T) {
	etcd := etcdtest.Start(t)
	a := start(t, etcd)
	awaitLeader(t, a, a.address())
	b := start(t, etcd)
	term, leads := a.Term()
	require.True(t, leads)
	_, err := etcd.Client().Revoke(etcdtest.Context(t), a.Session().ID())
	require.NoError(t, err)
	awaitLeader(t, b, b.address())
	<-term.Context().Done()
	awaitState(t, b, func(s *state.Snapshot) bool { return len(s.Queue) == 2 && len(s.Members) == 2 })
	require.EqualValues(t, 1, a.Status().SessionsLost)
	require.False(t, term.Valid())
}

// A record that another process altered is written again. A deleted record costs the session, and the node
// registers anew.
func TestRecordIsKept(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	a := start(t, etcd)
	key := a.keys.Node(a.address())
	first := inspect.Snapshot(a).Member(a.address()).Incarnation
	_, err := etcd.Client().Put(ctx, key, "{}")
	require.NoError(t, err)
	awaitState(t, a, func(s *state.Snapshot) bool {
		m := s.Member(a.address())
		return m != nil && m.InstanceID == a.node.InstanceID() && m.KeyLease == m.Lease && m.ModRevision > m.Incarnation+1
	})
	require.Equal(t, first, inspect.Snapshot(a).Member(a.address()).Incarnation)
	_, err = etcd.Client().Delete(ctx, key)
	require.NoError(t, err)
	awaitState(t, a, func(s *state.Snapshot) bool {
		m := s.Member(a.address())
		return m != nil && m.Incarnation > first
	})
}

// etcd does not always keep a record as written (bytes that are not UTF-8). The node must not write it again
// forever.
func TestRecordSettles(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	c := start(t, etcd, func(c *Config) {
		c.Labels = map[string]string{"bad": "\xff\xfe"}
		c.Events.Off = true      // they are written with a delay
		c.LeaderElectionTTL = 60 // no renewal measures another distance from etcd meanwhile
	})
	awaitLeader(t, c, c.address())
	awaitState(t, c, func(s *state.Snapshot) bool { return s.ShardMap != nil })
	read := func() int64 {
		resp, err := etcd.Client().Get(etcdtest.Context(t), "/")
		require.NoError(t, err)
		return resp.Header.Revision
	}
	before := read()
	<-time.After(300 * time.Millisecond) // three times the interval between attempts at a repair
	require.Equal(t, before, read())
}

// A stop without a session still leaves the election, so that the next session does not queue.
func TestStopBetweenTwoSessions(t *testing.T) {
	etcd := etcdtest.Start(t)
	blocked := &blockedLease{Lease: etcd.Client().Lease}
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Watcher, client.Lease, client.Maintenance =
		etcd.Client().KV, etcd.Client().Watcher, blocked, etcd.Client().Maintenance
	c := start(t, etcd, func(c *Config) { c.Client = client })
	blocked.on.Store(true)
	inspect.Session(c).EndLocally(session.ReasonPaused, nil)
	require.Eventually(t, func() bool { return errors.Is(c.Session().Err(), ErrNoSession) }, 5*time.Second,
		time.Millisecond)
	p := c.parts.Load()
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	require.True(t, p.Membership.Record().Stopping)
	require.Error(t, p.Consensus.Start(etcdtest.Context(t)))
}

// blockedLease grants no lease while on.
type blockedLease struct {
	clientv3.Lease
	on atomic.Bool
}

func (l *blockedLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if l.on.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Lease.Grant(ctx, ttl)
}

func TestUsersOwnClient(t *testing.T) {
	etcd := etcdtest.Start(t)
	c := start(t, etcd, func(c *Config) { c.Client, c.EtcdAddress = etcd.Client(), "" })
	awaitLeader(t, c, c.address())
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	_, err := etcd.Client().Get(etcdtest.Context(t), "/")
	require.NoError(t, err, "the client is the user's, and open")
}

package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node"
)

// members is an etcd of three members, one of which is to be isolated, with nodes that each have their own
// endpoints, are recorded, and work on one register.
type members struct {
	t      *testing.T
	etcd   *embedetcd.Cluster
	cut    int              // the member to isolate
	client *clientv3.Client // of another member
	rec    *history.Recorder
	ctx    context.Context // ends the work
	wg     sync.WaitGroup
}

// electing is etcd's election time-out. It is longer than a heartbeat takes on a busy machine.
const electing = 300 * time.Millisecond

// newMembers starts etcd. The member to isolate is etcd's leader, or a follower.
func newMembers(t *testing.T, leader bool) *members {
	t.Helper()
	cfg := embedetcd.TestTiming(embedetcd.Config{})
	cfg.HeartbeatInterval, cfg.ElectionTimeout = electing/10, electing
	etcd, err := embedetcd.StartCluster(etcdtest.Context(t), 3, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	m := &members{t: t, etcd: etcd}
	for i := range 3 {
		st, err := etcd.Member(i).Client().Status(etcdtest.Context(t), "")
		require.NoError(t, err)
		if (st.Leader == st.Header.MemberId) == leader {
			m.cut = i
		}
	}
	m.client = etcd.Member((m.cut + 1) % 3).Client()
	return m
}

// minority returns the endpoint of the member to isolate, majority those of the others.
func (m *members) minority() string { return m.etcd.Endpoints()[m.cut] }

func (m *members) majority() []string {
	all := m.etcd.Endpoints()
	return []string{all[(m.cut+1)%3], all[(m.cut+2)%3]}
}

// record begins to record. Recording ends, and is judged, before the nodes started so far stop.
func (m *members) record() {
	m.rec = history.Record(m.t, history.Limits{})
	ctx, cancel := context.WithCancel(context.Background())
	m.ctx = ctx
	now, err := m.client.Get(etcdtest.Context(m.t), "/elsewhere")
	require.NoError(m.t, err)
	m.wg.Go(func() {
		if err := m.rec.Register("etcd", m.client, "/elsewhere").Follow(ctx, now.Header.Revision+1); err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(func() {
		cancel()
		m.wg.Wait()
	})
}

// work records a node and makes it write whenever it leads.
func (m *members) work(n *boundNode) {
	m.rec.Add(history.NodeOf(n.name, n.Cluster))
	register := m.rec.Register(n.name, m.client, "/elsewhere")
	m.wg.Go(func() { register.Work(m.ctx, 10*time.Millisecond, history.TermOf(n.Cluster)) })
}

// boundNode is a node restricted to certain endpoints.
type boundNode struct {
	*cluster.Cluster
	name   string
	client *clientv3.Client
	log    *logtest.Buffer
}

// start starts a node that is a candidate or an observer. While it starts it reaches only the first endpoint, so
// that its watch is there; afterwards it reaches the others too.
func (m *members) start(name string, observer bool, endpoints ...string) *boundNode {
	m.t.Helper()
	n := &boundNode{name: name, log: &logtest.Buffer{}}
	cfg := cluster.Config{EtcdAddress: endpoints[0], LeaderElectionTTL: int(minorityTTL.Seconds()), Observer: observer,
		Logger: n.log.LoggerWith(hclog.LoggerOptions{Name: name})}
	var err error
	n.client, err = cluster.NewEtcdClient(cfg)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = n.client.Close() }) // its error is that its context was cancelled
	cfg.Client = n.client
	server, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(m.t, err)
	n.Cluster, err = cluster.NewClusterWithNode(cfg, server)
	require.NoError(m.t, err)
	require.NoError(m.t, n.Start(etcdtest.Context(m.t)))
	m.t.Cleanup(func() {
		if err := n.Stop(etcdtest.Context(m.t)); err != nil {
			m.t.Errorf("stop %s: %v", name, err)
		}
		if m.t.Failed() {
			m.t.Logf("the log of %s at %s:\n%s", name, n.address(), n.log)
		}
	})
	n.client.SetEndpoints(endpoints...)
	answered := map[uint64]bool{}
	m.await(func() bool {
		resp, err := n.client.Get(etcdtest.Context(m.t), "/elsewhere", clientv3.WithSerializable())
		if err == nil {
			answered[resp.Header.MemberId] = true
		}
		return len(answered) == len(endpoints)
	}, "each endpoint answers "+name)
	return n
}

// await waits until cond holds.
func (m *members) await(cond func() bool, what string) {
	m.t.Helper()
	require.Eventually(m.t, cond, time.Minute, time.Millisecond, what)
}

func (n *boundNode) address() string { return n.Node().AdvertiseAddress() }

// sees reports whether the node's snapshot shows another one.
func (n *boundNode) sees(other *boundNode) bool {
	return inspect.Snapshot(n.Cluster).Member(other.address()) != nil
}

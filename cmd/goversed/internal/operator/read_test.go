package operator

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestRead(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.HTTPAddress, cfg.Version = "127.0.0.1:48001", "v1"
		cfg.Observer = i == 2
	}))
	first, second, third := c.Node(0).Address(), c.Node(1).Address(), c.Node(2).Address()
	c.WaitLeaderIs(first)
	d, err := openOperator(t, c).Read(testContext(t))
	require.NoError(t, err)
	require.Equal(t, first, d.LeaderID)
	require.Equal(t, c.Node(0).Cluster().Leader().Token, d.Token)
	require.Equal(t, d.Token, d.Term)
	require.Equal(t, "election", d.Mode)
	require.Equal(t, []string{first, second}, d.Queue)
	require.ElementsMatch(t, []string{first, second, third}, d.Nodes)
	require.Equal(t, 3, d.ClusterSize)

	byAddress := map[string]Node{}
	for i, n := range d.Members {
		require.Equal(t, d.Nodes[i], n.Address)
		byAddress[n.Address] = n
	}
	require.Equal(t, "leader", byAddress[first].State)
	require.Equal(t, 1, byAddress[first].Place)
	require.Equal(t, "candidate", byAddress[second].State)
	require.Equal(t, 2, byAddress[second].Place)
	require.Equal(t, "follower", byAddress[third].State)
	require.True(t, byAddress[third].Observer)

	leader := d.Leader()
	require.Equal(t, first, leader.LeaderID)
	require.Equal(t, "127.0.0.1:48001", leader.HTTP)
	require.True(t, leader.Member)

	var out strings.Builder
	require.NoError(t, PrintStatus(&out, d, false))
	for _, says := range []string{"leader    " + first, "queue     " + first + ", " +
		second, "candidate", "observer", "127.0.0.1:48001"} {
		require.Contains(t, out.String(), says)
	}
	out.Reset()
	require.NoError(t, PrintLeader(&out, d, false))
	require.Equal(t, first+"\n", out.String())
	out.Reset()
	require.NoError(t, PrintNodes(&out, d, true))
	var nodes List[Node]
	require.NoError(t, json.Unmarshal([]byte(out.String()), &nodes))
	require.Equal(t, d.Members, nodes.Items)
}

// A leader that does not answer is marked, in the line of the leader and in its own.
func TestStatusOfASilentLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(10)) // the key of the silence names one incarnation
	leader, other := c.WaitLeader(), c.Node(1)
	m, ok := leader.Cluster().Member(leader.Address())
	require.True(t, ok)
	remove := c.PutStrayKey(nodetest.Keys.Silence(leader.Address(), "x"),
		state.SilenceRecord{Incarnation: m.Incarnation, SilentMS: 4100}.Encode())
	defer remove()
	d, err := openOperator(t, c).Read(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 4, d.LeaderSilentSeconds)
	var out strings.Builder
	require.NoError(t, PrintStatus(&out, d, false))
	require.Regexp(t, `leader    `+leader.Address()+` \(token \d+, election, not answering for 4 s, seen by 1 node\)`,
		out.String())
	require.Regexp(t, leader.Address()+` .* not answering for 4 s, seen by 1 node\n`, out.String())
	require.NotRegexp(t, other.Address()+` .* not answering`, out.String())
	out.Reset()
	require.NoError(t, PrintChange(&out, time.Time{}, d.View, false))
	require.Contains(t, out.String(), "(the leader has not answered for 4 s)")
}

func TestReadOfNothing(t *testing.T) {
	t.Parallel()
	d, err := openOperator(t, clustertest.New(t, 0)).Read(testContext(t))
	require.NoError(t, err)
	var out strings.Builder
	require.EqualError(t, PrintLeader(&out, d, true), "no node is registered under /goverse: check --prefix")
	some := d
	some.ClusterSize = 1
	require.ErrorIs(t, PrintLeader(&out, some, true), leaderelection.ErrNoLeader)
	require.Empty(t, out.String())
	require.NoError(t, PrintStatus(&out, d, false))
	require.Regexp(t, `^leader    none\nqueue     none\nnodes     0\nrevision  \d+\n\n`+
		`no node is registered under /goverse: check --prefix\n$`, out.String())
	out.Reset()
	require.NoError(t, PrintNodes(&out, d, false))
	require.Equal(t, "no node is registered under /goverse: check --prefix\n", out.String())
	out.Reset()
	require.NoError(t, PrintNodes(&out, d, true))
	require.Equal(t, "{\"items\":[],\"more\":false}\n", out.String())
	out.Reset()
	require.NoError(t, PrintStatus(&out, d, true))
	for _, says := range []string{`"queue":[]`, `"nodes":[]`, `"members":[]`, `"leader_id":""`} {
		require.Contains(t, out.String(), says)
	}
}

// A program that uses only concurrency.Election may lead.
func TestReadOfAnOutsideLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	remove := c.PutStrayKey(nodetest.Keys.Candidate(0x123), "elsewhere")
	defer remove()
	d, err := openOperator(t, c).Read(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "elsewhere", d.LeaderID)
	require.False(t, d.Member)
	var out strings.Builder
	require.NoError(t, PrintStatus(&out, d, false))
	require.Contains(t, out.String(), "not a Goverse node")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	o := openOperatorAt(t, "127.0.0.1:1")
	began := time.Now()
	ctx, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	_, err := o.Read(ctx)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.ErrorContains(t, err, "--etcd")
	_, err = o.Resign(testContext(t), 200*time.Millisecond)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	err = o.Watch(testContext(t), 200*time.Millisecond, func(View) error { return nil })
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.Less(t, time.Since(began), 10*time.Second)
}

// Another gRPC server, such as a node's own, and web servers.
func TestNotEtcd(t *testing.T) {
	t.Parallel()
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	other := grpc.NewServer()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = other.Serve(rpc) })
	defer other.Stop()
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	defer web.Close()

	for _, address := range []string{rpc.Addr().String(), web.Listener.Addr().String(), old.Listener.Addr().String()} {
		ctx := testContext(t)
		_, err := openOperatorAt(t, address).Read(ctx)
		require.NoError(t, ctx.Err(), "the time-out is not waited for")
		require.ErrorIs(t, err, cluster.ErrNotEtcd)
		require.EqualError(t, err, "what answers at "+address+" is no etcd: set --etcd to etcd's client address, "+
			"usually port 2379")
	}
}

// slowAnswer is an answer time after which the client starts to probe the address.
const slowAnswer = time.Second / 2

// A slow etcd is waited for, and so is a server that sends nothing.
func TestSlow(t *testing.T) {
	t.Parallel()
	relay, err := fault.NewRelay(strings.TrimPrefix(etcdtest.Start(t).Endpoint(), "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	relay.Delay(fault.Both, slowAnswer) // a probe gets no answer in time
	_, err = openOperatorAt(t, relay.Address()).Read(testContext(t))
	require.NoError(t, err)

	relay.Blackhole(fault.Both)
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Second)
	defer cancel()
	_, err = openOperatorAt(t, relay.Address()).Read(ctx)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "not before")
	require.EqualError(t, err, "etcd cannot be reached at "+relay.Address()+": it takes connections and says nothing, so "+
		"it is no etcd or one that stands still: check --etcd and that etcd runs there")
}

// With a user, the log-in fails first. The error is the same, and is reported only once.
func TestUnreachableWithAUser(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	cfg := cluster.Config{EtcdAddress: silent.Addr().String(), EtcdPrefix: "/goverse", Username: "u", Password: "p"}
	_, err = Open(t.Context(), cfg, slowAnswer/2)
	require.EqualError(t, err, "etcd cannot be reached at "+cfg.EtcdAddress+": it takes connections and says nothing, so "+
		"it is no etcd or one that stands still: check --etcd and that etcd runs there")

	ctx, interrupt := context.WithTimeout(t.Context(), slowAnswer/2)
	defer interrupt()
	began := time.Now()
	_, err = Open(ctx, cfg, time.Minute)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.Less(t, time.Since(began), patience)

	relay, err := fault.NewRelay(strings.TrimPrefix(etcdtest.Start(t).Endpoint(), "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	cfg.EtcdAddress = relay.Address()
	relay.Delay(fault.FromTarget, slowAnswer/2)
	_, err = Open(t.Context(), cfg, slowAnswer/2)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.Equal(t, 1, strings.Count(err.Error(), "cannot be reached"), err)
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), cluster.Config{EtcdPrefix: "goverse"}, patience)
	require.ErrorIs(t, err, state.ErrBadPrefix)
	_, err = Open(t.Context(), cluster.Config{EtcdAddress: "nowhere", EtcdPrefix: "/goverse"}, patience)
	require.ErrorIs(t, err, cluster.ErrBadEtcdAddress)
}

func TestDenied(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	ctx := testContext(t)
	// Hashing passwords is slow, so there is only one.
	_, err := e.Client().UserAddWithOptions(ctx, "root", "", &clientv3.UserAddOptions{NoPassword: true})
	require.NoError(t, err)
	_, err = e.Client().UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = e.Client().UserAdd(ctx, "nobody", "secret")
	require.NoError(t, err)
	_, err = e.Client().AuthEnable(ctx)
	require.NoError(t, err)

	_, err = openOperatorAt(t, e.Endpoint()).Read(ctx)
	require.ErrorIs(t, err, cluster.ErrEtcdDenied)
	require.ErrorContains(t, err, "--etcd-user")

	cfg := cluster.Config{EtcdAddress: e.Endpoint(), EtcdPrefix: "/goverse", Username: "nobody", Password: "wrong"}
	_, err = Open(t.Context(), cfg, patience)
	require.ErrorIs(t, err, cluster.ErrEtcdDenied)

	cfg.Password = "secret"
	o, err := Open(t.Context(), cfg, patience)
	require.NoError(t, err)
	_, err = o.Read(ctx)
	require.ErrorIs(t, err, cluster.ErrEtcdDenied)
	require.NoError(t, o.Close())
}

//go:build unix

package integration

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/integration/internal/procs"
)

var proxyFor = flag.Duration("proxy.for", 12*time.Second,
	"how long other keys are written behind each grpc-proxy, faults apart")

const (
	// proxyTTL allows for the half second that the proxy may add to a renewal.
	proxyTTL = 6 * time.Second
	// proxySaid is part of the line in which a node reports that it is behind a proxy.
	proxySaid = "grpc-proxy"
)

// writeOthers writes a key outside of the cluster until the test ends.
func writeOthers(t *testing.T, client *clientv3.Client, key string, every time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		again := time.NewTicker(every)
		defer again.Stop()
		for i := 0; ; i++ {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			if _, err := client.Put(ctx, fmt.Sprintf("%s/%d", key, i%10), strconv.Itoa(i)); err != nil && ctx.Err() == nil {
				t.Errorf("write %s: %v", key, err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// A proxy renews leases without a user, which etcd 3.7 refuses if access control is on. A node reports why its
// sessions end, and the doctor why they will.
func TestGRPCProxyThatMayNotRenew(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	proxy := kit.StartProxy(t, procs.Etcd37, etcd)
	enableAccess(t, etcd)
	n := kit.StartNode(t, procs.NodeConfig{Etcd: proxy.Endpoint, TTL: proxyTTL, User: administrator,
		Password: administrator})
	n.AwaitOutput(t, patience, session.ErrNotRenewed.Error())
	doctor := kit.Start(t, "goversed doctor", kit.GoversedPath(t), []string{"doctor", "--etcd", proxy.Endpoint,
		"--prefix", procs.Prefix, "--etcd-user", administrator}, []string{"GOVERSE_ETCD_PASSWORD=" + administrator})
	require.NotZero(t, doctor.Exit(t, patience), doctor.Output())
	require.Contains(t, doctor.Output(), "does not renew a lease")
}

var handledRanges = regexp.MustCompile(`^grpc_server_handled_total\{.*grpc_method="Range".*\} ([0-9.e+]+)$`)

// ranges returns the number of Range requests that etcd has answered.
func ranges(t *testing.T, etcd *procs.Etcd) (n float64) {
	t.Helper()
	resp, err := http.Get("http://" + etcd.Endpoint + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := handledRanges.FindStringSubmatch(lines.Text()); m != nil {
			count, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			n += count
		}
	}
	return n
}

// rebuilds returns the number of times that the node has read the cluster again.
func rebuilds(t *testing.T, n *procs.Node) float64 {
	t.Helper()
	count, err := n.Metric(requestContext(t), "goverse_mirror_rebuilds_total")
	require.NoError(t, err)
	return count
}

// Nodes behind etcd's grpc-proxy elect, hand over and serve their shards as usual. They do not read the cluster
// again and again while others write.
func TestBehindGRPCProxy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ etcd, proxy procs.Flavour }{
		{procs.Etcd37, procs.Etcd34}, {procs.Etcd37, procs.Etcd37}, {procs.Etcd34, procs.Etcd34},
	} {
		t.Run(fmt.Sprintf("%s behind %s", tc.etcd, tc.proxy), func(t *testing.T) {
			t.Parallel()
			behindProxy(t, tc.etcd, tc.proxy)
		})
	}
}

func behindProxy(t *testing.T, etcdFlavour, proxyFlavour procs.Flavour) {
	etcd := kit.StartEtcd(t, etcdFlavour)
	proxy := kit.StartProxy(t, proxyFlavour, etcd)
	cfg := procs.NodeConfig{Etcd: proxy.Endpoint, TTL: proxyTTL}
	nodes, watch := startNodes(t, cfg, 3)
	client := etcd.Client(t, "", "")
	writeOthers(t, client, "/elsewhere", 10*time.Millisecond)
	served := func() {
		t.Helper()
		procs.Await(t, 2*patience, "the shards are spread", func() error { return checkShardsSpread(t, nodes) })
	}
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	served()

	// During these writes no node has a reason to read the cluster again.
	rest := func(what string) {
		t.Helper()
		before, began := make([]float64, len(nodes)), time.Now()
		for i, n := range nodes {
			before[i] = rebuilds(t, n)
		}
		asked := ranges(t, etcd)
		procs.SleepUntil(began.Add(*proxyFor / 2))
		took := time.Since(began)
		asked = ranges(t, etcd) - asked
		for i, n := range nodes {
			again := rebuilds(t, n) - before[i]
			t.Logf("%s: %s read the cluster again %v times in %v", what, n.Address, again, took.Round(time.Second))
			require.LessOrEqual(t, again, 1+took.Minutes(), "%s reads the cluster again and again", n.Address)
		}
		perNode := asked / took.Seconds() / float64(len(nodes))
		t.Logf("%s: %.0f reads at etcd, %.2f a second and node", what, asked, perNode)
		require.Less(t, perNode, 2/(proxyTTL/3).Seconds(), "reads a second and node")
	}
	rest("keys elsewhere written")
	inside := writeOthers(t, client, procs.Prefix+"/other", 100*time.Millisecond)
	rest("keys inside written too")
	inside()

	checkProxyLock(t, proxy, client)

	killed := nodes[0].Kill(t)
	dead := nodes[0].Address
	nodes = awaitQueueOrder(t, nodes[1:])
	t.Logf("%v after SIGKILL of the leader the next one leads", time.Since(killed).Round(time.Millisecond))
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	served()
	again := cfg
	again.Listen = dead
	late := kit.StartNode(t, again)
	watch.Add(late)
	nodes = awaitQueueOrder(t, append(nodes, late))
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	served()

	signalled := nodes[0].Signal(t, syscall.SIGTERM)
	nodes[1].AwaitStatus(t, patience, "leads", leads)
	took := time.Since(signalled)
	t.Logf("%v after SIGTERM to the leader the next one leads", took.Round(time.Millisecond))
	require.Less(t, took, proxyTTL/2, "the end of a lease would take longer")
	require.Zero(t, nodes[0].Exit(t, patience), "a graceful stop")
	nodes = nodes[1:]
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	served()
	for _, n := range nodes {
		procs.Await(t, patience, n.Address+" says that it is behind a proxy", func() error {
			return equal("lines about the proxy", strings.Count(n.Output(), proxySaid), 1)
		})
	}
}

// awaitQueueOrder waits until one of the nodes leads and all are queued, and returns them in the order of the queue: on
// a busy machine one may have lost its session, and its place.
func awaitQueueOrder(t *testing.T, nodes []*procs.Node) []*procs.Node {
	t.Helper()
	byAddress := map[string]*procs.Node{}
	for _, n := range nodes {
		byAddress[n.Address] = n
	}
	var ordered []*procs.Node
	procs.Await(t, patience, "one leads", func() error {
		st, err := nodes[0].Status(requestContext(t))
		if err != nil {
			return err
		}
		ordered = nil
		for _, address := range st.Queue {
			if n := byAddress[address]; n != nil {
				ordered = append(ordered, n)
			}
		}
		if len(ordered) < len(nodes) || len(st.Queue) > len(nodes) || st.LeaderID != ordered[0].Address {
			return errNotYet
		}
		st, err = ordered[0].Status(requestContext(t))
		if err != nil {
			return err
		}
		return leads(st)
	})
	return ordered
}

// checkProxyLock has a lock handed over from one goversed lock to another, both behind the proxy.
func checkProxyLock(t *testing.T, proxy *procs.Proxy, client *clientv3.Client) {
	t.Helper()
	lock := func() *procs.Process {
		return kit.Goversed(t, "lock", "behind", "--etcd", proxy.Endpoint, "--prefix", procs.Prefix, "--ttl",
			proxyTTL.String(), "--",
			"sh", "-c", "echo inside; exec sleep 60")
	}
	places := procs.Prefix + "/work/locks/"
	first := lock()
	first.AwaitOutput(t, patience, "inside")
	second := lock()
	procs.Await(t, patience, "the second waits", func() error {
		return equal("places", len(procs.Keys(t, client, places))-len(procs.Keys(t, client, places+"batches/")), 2)
	})
	signalled := first.Signal(t, syscall.SIGTERM)
	second.AwaitOutput(t, patience, "inside")
	took := time.Since(signalled)
	t.Logf("%v after SIGTERM to the holder of a lock the next one is inside", took.Round(time.Millisecond))
	require.Less(t, took, proxyTTL/2, "the end of a lease would take longer")
	first.Exit(t, patience)
	second.Signal(t, syscall.SIGTERM)
	second.Exit(t, patience)
}

// etcd with access control forgets its tokens when it is restarted. The proxy then cannot open its watches
// again and reports that to no client, so the nodes must detect it themselves. (From then on the proxy of 3.4
// opens no watch for any client until it is restarted itself.)
func TestEtcdRestartedBehindGRPCProxy(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd34)         // lets a proxy renew leases, see TestGRPCProxyThatMayNotRenew
	proxy := kit.StartProxy(t, procs.Etcd37, etcd) // reports its health only without a user
	enableAccess(t, etcd)
	cfg := procs.NodeConfig{Etcd: proxy.Endpoint, TTL: proxyTTL, User: administrator, Password: administrator}
	nodes, _ := startNodes(t, cfg, 3)
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	etcd.Kill(t)
	etcd.Restart(t)
	for range 2 {
		gone := nodes[0]
		signalled := gone.Signal(t, syscall.SIGTERM)
		nodes = nodes[1:]
		nodes[0].AwaitStatus(t, patience, "leads", leads)
		took := time.Since(signalled)
		t.Logf("%v after SIGTERM to the leader the next one leads", took.Round(time.Millisecond))
		// No node has seen that it stopped, and etcd's raft term has changed. So it lingers for the
		// grace period, because the others' leases are as old and still exist.
		require.Less(t, took, 2*proxyTTL, "a TTL until the silence is noticed, and what requests take")
		gone.Exit(t, patience)
		again := cfg
		again.Listen = gone.Address
		nodes = append(nodes, kit.StartNode(t, again))
		awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	}
	for _, n := range nodes {
		t.Logf("%s has read the cluster again %v times", n.Address, rebuilds(t, n))
	}
}

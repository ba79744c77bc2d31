package doctor

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/cmd/goversed/internal/prefixes"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

// withoutCrashDetection turns crash detection off, so that leftovers of dead nodes stay, and uses few shards.
func withoutCrashDetection() clustertest.Option {
	return clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.CrashDetection.Off, cfg.LeaderElectionTTL = true, 60
		cfg.Sharding.Shards, cfg.Sharding.Window = 16, 10*time.Millisecond
	})
}

// etcdEndpoint returns the address of the cluster's etcd.
func etcdEndpoint(c *clustertest.Cluster) string { return c.Etcd().Endpoint() }

func TestAddressThatRefuses(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, withoutCrashDetection(), clustertest.WithEntrances())
	requireAtMost(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.Note, diagnosis.CheckAddresses, diagnosis.CheckLeases,
		diagnosis.CheckLeader)
	c.Node(1).Refuse()
	requireFound(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.CheckAddresses, diagnosis.Problem, c.Node(1).Address(),
		"no process listens", "correct its --advertise")
	c.Node(1).Accept()
	requireAtMost(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.Note, diagnosis.CheckAddresses, diagnosis.CheckLeases)
}

// A killed process with a lease that still exists, and another process at its address.
func TestStaleLeaseAndAnotherInstance(t *testing.T) {
	t.Parallel()
	// Without shards, because no planner would reassign those of the dead leader.
	c := clustertest.New(t, 2, withoutCrashDetection(), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Off = true
	}))
	gone := c.Node(0)
	lease := gone.Lease()
	gone.Kill()
	stale := []string{fmt.Sprintf("lease %x of the node %s", lease, gone.Address()), "etcdctl lease revoke"}
	found := examineEtcd(t, etcdEndpoint(c))
	requireFound(t, found, diagnosis.CheckLeases, diagnosis.Warning, stale...)
	requireFound(t, found, diagnosis.CheckAddresses, diagnosis.Problem, gone.Address(), "no process listens")

	other, err := node.NewNode(node.Config{ListenAddress: gone.Address()})
	require.NoError(t, err)
	defer func() { _ = other.Close() }() // always nil
	require.NoError(t, other.Start())
	found = examineEtcd(t, etcdEndpoint(c))
	requireFound(t, found, diagnosis.CheckAddresses, diagnosis.Problem, gone.Address(), "another process answers",
		other.InstanceID(), "an --advertise of its own")
	requireFound(t, found, diagnosis.CheckLeases, diagnosis.Warning, stale...)
}

// registerFake writes a bad record for a node that does not exist.
func registerFake(t *testing.T, c *clustertest.Cluster, address, http string, more ...string) {
	t.Helper()
	lease, err := c.Client().Grant(etcdtest.Context(t), 60)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Client().Revoke(etcdtest.Context(t), lease.ID) })
	_, err = c.Client().Put(etcdtest.Context(t), testKeys(t).Node(address), "{"+strings.Join(append(more,
		fmt.Sprintf(`"instance_id":"x","lease":%d,"ttl":60,"http_address":%q`, lease.ID, http)), ",")+"}",
		clientv3.WithLease(lease.ID))
	require.NoError(t, err)
}

func TestAddressesOfOthers(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, withoutCrashDetection())
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, but never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	etcd := strings.TrimPrefix(etcdEndpoint(c), "http://")
	registerFake(t, c, "no-such-host.invalid:47001", "")
	registerFake(t, c, mute.Addr().String(), "")
	registerFake(t, c, etcd, "")
	found := examineEtcd(t, etcdEndpoint(c))
	requireFound(t, found, diagnosis.CheckAddresses, diagnosis.Problem, "no-such-host.invalid", "is unknown here",
		"a name that resolves")
	requireFound(t, found, diagnosis.CheckAddresses, diagnosis.Warning, mute.Addr().String(), "does not answer from here",
		"--node-cert")
	requireFound(t, found, diagnosis.CheckAddresses, diagnosis.Problem, etcd, "is no node", "correct its --advertise")
}

func TestForeignHeadOfTheQueue(t *testing.T) {
	t.Parallel()
	t.Run("without a lease", func(t *testing.T) {
		t.Parallel()
		c := clustertest.New(t, 0, withoutCrashDetection())
		remove := c.PutStrayKey(testKeys(t).Queue()+"stray", "somebody")
		defer remove()
		found := examineEtcd(t, etcdEndpoint(c))
		requireFound(t, found, diagnosis.CheckLeader, diagnosis.Problem, "/leader/stray", "has no lease", "no node leads",
			"etcdctl del")
	})
	t.Run("with the lease of a program that died", func(t *testing.T) {
		t.Parallel()
		c := clustertest.New(t, 0, withoutCrashDetection())
		ctx := etcdtest.Context(t)
		outside, err := clientv3.New(clientv3.Config{Endpoints: []string{etcdEndpoint(c)}})
		require.NoError(t, err)
		defer func() { _ = outside.Close() }()
		session, err := concurrency.NewSession(outside, concurrency.WithTTL(60))
		require.NoError(t, err)
		require.NoError(t, concurrency.NewElection(session, testKeys(t).Election()).Campaign(ctx, "outside"))
		session.Orphan() // like after SIGKILL
		defer func() { _, _ = c.Client().Revoke(ctx, session.Lease()) }()
		requireFound(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.CheckLeader, diagnosis.Warning, `"outside"`,
			"which is no node's, "+
				"leads",
			"its lease of 1m0s has", fmt.Sprintf("etcdctl lease revoke %x", session.Lease()))
	})
}

func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, withoutCrashDetection())
	mapped := testKeys(t).ShardMap()
	c.Eventually(func() bool { return hasKey(t, c, mapped) }, "the shards are assigned")
	requireAtMost(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.Note, diagnosis.CheckValues)
	defer c.PutStrayKey(testKeys(t).Node("a:1"), "no JSON")()
	defer c.PutStrayKey(testKeys(t).Node("b:1"), "{}")()
	defer c.PutStrayKey(clustertest.Prefix+"/nodes-else", "x")()
	c.Node(0).Stop() // it would replace this map by its own
	_, err := c.Client().Put(etcdtest.Context(t), mapped, "no map")
	require.NoError(t, err)
	found := examineEtcd(t, etcdEndpoint(c))
	requireFound(t, found, diagnosis.CheckValues, diagnosis.Problem, mapped, "no shard is assigned", "etcdctl del "+mapped)
	requireFound(t, found, diagnosis.CheckValues, diagnosis.Problem, testKeys(t).Node("a:1"), "keeps its address",
		"etcdctl "+
			"del")
	requireFound(t, found, diagnosis.CheckValues, diagnosis.Problem, testKeys(t).Node("b:1"), "it names no process")
	requireFound(t, found, diagnosis.CheckValues, diagnosis.Note, "/nodes-else")
	requireFound(t, found, diagnosis.CheckLeases, diagnosis.Problem, "the node a:1 has no lease", "etcdctl del")
}

func hasKey(t *testing.T, c *clustertest.Cluster, key string) bool {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), key)
	require.NoError(t, err)
	return len(resp.Kvs) > 0
}

// Nodes refuse to start with a number of shards that differs from the others', unless they start at the same
// instant.
func TestNumbersOfShards(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, withoutCrashDetection())
	registerFake(t, c, "a:1", "", `"shards":17`)
	requireFound(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.CheckShards, diagnosis.Problem,
		"16 at "+c.Node(0).Address(),
		"17 at a:1", "the same --shards")
}

func TestPrefixThatIsMistaken(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, withoutCrashDetection())
	for key, value := range map[string]string{"/goverse/elections/00/x/1-1": "", "/goverse/work/locks/00/x/1-1": "",
		"/registry/nodes/a": "of another program", "/a": "", "/z": ""} {
		defer c.PutStrayKey(key, value)()
	}
	mistaken := func(cfg *Config) { cfg.Keys = keysWithPrefix(t, "/gouverse") }
	requireFound(t, examineEtcd(t, etcdEndpoint(c), mistaken), diagnosis.CheckPrefix, diagnosis.Warning,
		"no node is registered under /gouverse", "other clusters in this etcd: /goverse (2 nodes)", "check --prefix")
	found := examineEtcd(t, etcdEndpoint(c))
	requireFound(t, found, diagnosis.CheckPrefix, diagnosis.OK, "2 nodes under /goverse")
	require.NotContains(t, found.String(), "/registry")
}

// Long queues of a cluster do not hide another cluster behind them, although the number of keys read is
// limited.
func TestOthersAreLookedForInBounds(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, withoutCrashDetection())
	ctx := etcdtest.Context(t)
	many := func(prefix string) {
		for from := 0; from < prefixes.MaxKeys+100; from += 100 {
			var ops []clientv3.Op
			for i := range 100 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, from+i), ""))
			}
			_, err := c.Client().Txn(ctx).Then(ops...).Commit()
			require.NoError(t, err)
		}
	}
	many("/a/elections/00/x/")
	elsewhere := func(cfg *Config) { cfg.Keys = keysWithPrefix(t, "/else") }
	requireFound(t, examineEtcd(t, etcdEndpoint(c), elsewhere), diagnosis.CheckPrefix, diagnosis.Warning,
		"/goverse (1 node)")
	many("/b/")
	requireFound(t, examineEtcd(t, etcdEndpoint(c), elsewhere), diagnosis.CheckPrefix, diagnosis.Note,
		"no node is registered "+
			"under /else",
		"not all of etcd's keys were looked at")
	for _, prefix := range []string{"/a/", "/b/"} {
		_, err := c.Client().Delete(ctx, prefix, clientv3.WithPrefix())
		require.NoError(t, err)
	}
}

func TestNobodyStands(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, withoutCrashDetection(), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Observer = true
	}))
	c.AddNode()
	requireFound(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.CheckLeader, diagnosis.Warning,
		"there is no leader: every node is an "+
			"observer",
		"without --observer")
}

// The offset of a clock is derived from the date of an HTTP answer, here of a status page.
func TestClockThatIsOff(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, withoutCrashDetection())
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(page.Close)
	registerFake(t, c, "127.0.0.1:1", strings.TrimPrefix(page.URL, "http://"))
	requireFound(t, examineEtcd(t, etcdEndpoint(c)), diagnosis.CheckClocks, diagnosis.Warning,
		"ahead of that of the node "+
			"127.0.0.1:1",
		"NTP")
}

// Each missing right of a user is reported, with the command that grants it.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	open := etcdtest.Dial(t, etcd.Endpoint())
	etcdtest.EnableAuth(t, open, "p", "u")
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint()}, Username: "root", Password: "p"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	ctx := etcdtest.Context(t)
	grant := func(start, end string, right clientv3.PermissionType) {
		_, err := root.RoleGrantPermission(ctx, "u", start, end, right)
		require.NoError(t, err)
	}
	all := access.Ranges(testKeys(t), access.Node)
	for _, r := range all {
		grant(r.Start, r.End, clientv3.PermissionType(clientv3.PermReadWrite))
	}
	found := examineEtcd(t, etcd.Endpoint(), withUser("u", "p"))
	requireAtMost(t, found, diagnosis.Note)
	require.Contains(t, found.String(), "this user may not look for other clusters")
	for _, r := range all {
		severity := diagnosis.Warning
		if r.Always {
			severity = diagnosis.Problem
		}
		_, err := root.RoleRevokePermission(ctx, "u", r.Start, r.End)
		require.NoError(t, err)
		requireFound(t, examineEtcd(t, etcd.Endpoint(), withUser("u", "p")), diagnosis.CheckAccess, severity,
			"READ and WRITE on "+r.String(), r.Purpose, r.GrantCommand("ROLE"))
		grant(r.Start, r.End, clientv3.PermissionType(clientv3.PermRead))
		requireFound(t, examineEtcd(t, etcd.Endpoint(), withUser("u", "p")), diagnosis.CheckAccess, severity,
			`denies the user "u" WRITE on `+r.String(), r.GrantCommand("ROLE"))
		grant(r.Start, r.End, clientv3.PermissionType(clientv3.PermReadWrite))
	}
	// All rights except for the candidates' keys, as in fallback.
	own := all[slices.IndexFunc(all, func(r access.Range) bool { return r.Always })]
	_, err = root.RoleRevokePermission(ctx, "u", own.Start, own.End)
	require.NoError(t, err)
	grant(own.Start, own.End, clientv3.PermissionType(clientv3.PermRead))
	grant(own.Start, testKeys(t).Queue(), clientv3.PermissionType(clientv3.PermWrite))
	grant(testKeys(t).QueueEnd(), own.End, clientv3.PermissionType(clientv3.PermWrite))
	requireFound(t, examineEtcd(t, etcd.Endpoint(), withUser("u", "p")), diagnosis.CheckAccess, diagnosis.Problem,
		"WRITE ("+testKeys(t).Queue()+" for candidacy) on")
	// Nor may it use accusations of silence. A node works all the same; its lease decides.
	silence := testKeys(t).SilenceAccusations()
	_, err = root.RoleRevokePermission(ctx, "u", silence, clientv3.GetPrefixRangeEnd(silence))
	require.NoError(t, err)

	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd.Endpoint(), EtcdPrefix: clustertest.Prefix,
		Username: "u", Password: "p"}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(ctx))
	require.Eventually(t, c.IsLeader, patience, time.Millisecond)
	found = examineEtcd(t, etcd.Endpoint(), withUser("u", "p"))
	requireFound(t, found, diagnosis.CheckFallback, diagnosis.Problem, "the election of "+n.AdvertiseAddress()+" does "+
		"not work",
		"permission denied", "grant WRITE on "+testKeys(t).Queue())
	requireFound(t, found, diagnosis.CheckFallback, diagnosis.Problem, "leads in fallback")
	require.NoError(t, c.Stop(ctx))
}

// A user without any rights gets findings about that, and about the status of etcd.
func TestEverythingIsDenied(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	etcdtest.EnableAuth(t, etcdtest.Dial(t, etcd.Endpoint()), "p", "u")
	found := examineEtcd(t, etcd.Endpoint(), withUser("u", "p"))
	for _, r := range access.Ranges(testKeys(t), access.Node) {
		severity := diagnosis.Warning
		if r.Always {
			severity = diagnosis.Problem
		}
		requireFound(t, found, diagnosis.CheckAccess, severity, "READ and WRITE on "+r.String())
	}
	for _, check := range []string{diagnosis.CheckEndpoints, diagnosis.CheckQuorum, diagnosis.CheckLatency,
		diagnosis.CheckTTL, diagnosis.CheckAlarms} {
		requireFound(t, found, check, diagnosis.OK)
	}
}

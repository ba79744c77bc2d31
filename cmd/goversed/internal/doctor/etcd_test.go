package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// refusingAddress returns an address without a listener: a relay holds the port and refuses connections.
func refusingAddress(t *testing.T) string {
	t.Helper()
	relay, err := fault.NewRelay("127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	relay.Refuse()
	return relay.Address()
}

// startThreeMembers returns an etcd of three members, and its endpoints separated by commas.
func startThreeMembers(t *testing.T) (*embedetcd.Cluster, string) {
	t.Helper()
	c, err := embedetcd.StartCluster(etcdtest.Context(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, strings.Join(c.Endpoints(), ",")
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	closed, etcd := refusingAddress(t), etcdtest.Start(t).Endpoint()
	found := examineEtcd(t, closed)
	requireFound(t, found, diagnosis.CheckEndpoints, diagnosis.Problem, closed, "nothing listens there", "check --etcd")
	requireFound(t, found, diagnosis.CheckUnread, diagnosis.Note, "etcd answers no reads")
	found = examineEtcd(t, closed+","+etcd)
	requireFound(t, found, diagnosis.CheckEndpoints, diagnosis.Warning, closed, "nothing listens there")
	requireFound(t, found, diagnosis.CheckEndpoints, diagnosis.OK, etcd)
	requireAtMost(t, found, diagnosis.Warning) // the other endpoint is enough
	requireFound(t, examineEtcd(t, "no-such-host.invalid:1,"+etcd), diagnosis.CheckEndpoints, diagnosis.Warning,
		"no-such-host.invalid:1", "name service")
}

func TestMembersOfEtcdThatAreDown(t *testing.T) {
	t.Parallel()
	etcd, endpoints := startThreeMembers(t)
	requireFound(t, examineEtcd(t, etcd.Endpoints()[0]), diagnosis.CheckQuorum, diagnosis.Note,
		"1 of etcd's 3 voting members",
		"name all members")
	require.NoError(t, etcd.StopMember(2))
	found := examineEtcd(t, endpoints)
	requireFound(t, found, diagnosis.CheckQuorum, diagnosis.Warning, "2 of 3 voting members", "it stands no further loss")
	requireFound(t, found, diagnosis.CheckEndpoints, diagnosis.Warning, etcd.Endpoints()[2])

	require.NoError(t, etcd.StopMember(1))
	found = examineEtcd(t, endpoints)
	requireFound(t, found, diagnosis.CheckQuorum, diagnosis.Problem, "1 of 3 voting members", "2 must run")
	requireFound(t, found, diagnosis.CheckUnread, diagnosis.Note)
}

// Without a quorum a user cannot even log in, but /health still reports the reason.
func TestNoQuorumForAUser(t *testing.T) {
	t.Parallel()
	etcd, endpoints := startThreeMembers(t)
	etcdtest.EnableAuth(t, etcdtest.Dial(t, etcd.Endpoints()[0]), "p", "u")
	require.NoError(t, etcd.StopMember(1))
	require.NoError(t, etcd.StopMember(2))
	requireFound(t, examineEtcd(t, endpoints, withUser("u", "p")), diagnosis.CheckQuorum, diagnosis.Problem,
		"etcd has no leader",
		"more than half must run")
}

func TestMemberOfEtcdThatIsCutOff(t *testing.T) {
	t.Parallel()
	etcd, endpoints := startThreeMembers(t)
	etcd.IsolateMember(0)
	t.Cleanup(func() { etcd.RejoinMember(0) })
	requireFound(t, examineEtcd(t, endpoints), diagnosis.CheckQuorum, diagnosis.Warning, etcd.Endpoints()[0], "sees no "+
		"leader", "repair")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	secure, plain := startEtcd(t, withTLS(t, authority)), etcdtest.Start(t).Endpoint()
	trusting := func(a *certtest.Authority) func(*Config) {
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(a.PEM))
		return func(c *Config) { c.Etcd.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} }
	}
	requireFound(t, examineEtcd(t, secure, trusting(other)), diagnosis.CheckEndpoints, diagnosis.Problem,
		"a certificate is "+
			"refused",
		"check --etcd-cacert")
	requireFound(t, examineEtcd(t, secure), diagnosis.CheckEndpoints, diagnosis.Problem, "it speaks TLS", "write https://")
	requireFound(t, examineEtcd(t, plain, trusting(authority)), diagnosis.CheckEndpoints, diagnosis.Problem,
		"it does not "+
			"speak TLS",
		"write http://")
}

func TestWhoTheUserIs(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	etcdtest.EnableAuth(t, etcdtest.Dial(t, etcd.Endpoint()), "p", "u")
	requireFound(t, examineEtcd(t, etcd.Endpoint(), withUser("u", "wrong")), diagnosis.CheckLogin, diagnosis.Problem,
		`refused the user "u"`, "check --etcd-user")
	requireFound(t, examineEtcd(t, etcd.Endpoint()), diagnosis.CheckLogin, diagnosis.Problem, "none was given",
		"set --etcd-user")
}

// An etcd that is actually full.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, embeddedEtcd{quota: 4 << 20})
	client := etcdtest.Dial(t, etcd)
	fill := strings.Repeat("x", 1<<19)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(etcdtest.Context(t), 5*time.Second)
		defer cancel()
		_, err := client.Put(ctx, "/filler", fill)
		return err != nil && strings.Contains(err.Error(), rpctypes.ErrNoSpace.Error())
	}, patience, time.Millisecond)
	found := examineEtcd(t, etcd)
	requireFound(t, found, diagnosis.CheckAlarms, diagnosis.Problem, "NOSPACE", "etcdctl compact", "alarm disarm")
	requireFound(t, found, diagnosis.CheckSpace, diagnosis.Warning, "of the 4 MiB that are its quota", "etcdctl defrag")
	requireFound(t, found, diagnosis.CheckLatency, diagnosis.Problem, "creates no lease")
}

func TestLongerTTLThanAskedFor(t *testing.T) {
	t.Parallel()
	etcd, err := etcdtest.StartWith(etcdtest.Context(t), etcdtest.Config{DefaultTiming: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = etcd.Close() })
	requireFound(t, examineEtcd(t, etcd.Endpoint(), withTTL(time.Second)), diagnosis.CheckTTL, diagnosis.Warning,
		"a TTL of 2s where 1s are asked for", "set --ttl 2s")
	requireFound(t, examineEtcd(t, etcd.Endpoint(), withTTL(2*time.Second)), diagnosis.CheckTTL, diagnosis.OK)
}

func TestFarFromEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t).Endpoint()
	for name, c := range map[string]struct {
		oneWay, ttl time.Duration
		severity    diagnosis.Severity
		says        []string
	}{
		"for crash detection": {150 * time.Millisecond, 4 * time.Second, diagnosis.Warning,
			[]string{"so far", "crash detection leaves a node here to its lease", "raise --ttl to"}},
		"for sessions": {150 * time.Millisecond, time.Second, diagnosis.Problem,
			[]string{"too slow for a TTL of 1s", "raise --ttl to"}},
		"not for a long TTL": {100 * time.Millisecond, 30 * time.Second, diagnosis.OK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay, err := fault.NewRelay(etcd)
			require.NoError(t, err)
			t.Cleanup(func() { _ = relay.Close() })
			relay.Delay(fault.Both, c.oneWay)
			requireFound(t, examineEtcd(t, relay.Address(), withTTL(c.ttl)), diagnosis.CheckLatency, c.severity, c.says...)
		})
	}
}

// The doctor leaves nothing behind, and never touches the candidates' range.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	client := etcdtest.Dial(t, etcd.Endpoint())
	ctx := etcdtest.Context(t)
	watch := client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCreatedNotify(), clientv3.WithRev(1))
	require.True(t, (<-watch).Created)
	found := examineEtcd(t, etcd.Endpoint())
	requireAtMost(t, found, diagnosis.Note)
	leases, err := client.Leases(ctx)
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
	all, err := client.Get(ctx, "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	require.Empty(t, all.Kvs)
	_, err = client.Put(ctx, "/end", "")
	require.NoError(t, err)
	var touched []string
	for seen := range watch {
		for _, ev := range seen.Events {
			touched = append(touched, string(ev.Kv.Key))
		}
		if touched[len(touched)-1] == "/end" {
			break
		}
	}
	require.GreaterOrEqual(t, len(touched), 3, "the doctor's own key, written and deleted")
	for _, key := range touched[:len(touched)-1] {
		require.True(t, strings.HasPrefix(key, testKeys(t).DoctorKeys()), key)
	}
}

// If nothing answers, the examination ends with the overall time-out.
func TestItIsBounded(t *testing.T) {
	t.Parallel()
	relay, err := fault.NewRelay(etcdtest.Start(t).Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	relay.Blackhole(fault.Both)
	began := time.Now()
	found := examineEtcd(t, relay.Address(), func(c *Config) { c.Timeout = time.Second })
	require.Equal(t, diagnosis.Problem, diagnosis.Worst(found.findings), found)
	require.Less(t, time.Since(began), patience/2)
}

// A learner is among the endpoints.
func TestLearner(t *testing.T) {
	t.Parallel()
	first, peers := startMembers(t, embeddedEtcd{})
	learner := addLearner(t, first, peers)
	found := examineEtcd(t, first+","+learner)
	requireFound(t, found, diagnosis.CheckLearners, diagnosis.Warning, learner+" is a learner", "etcdctl member promote")
	requireFound(t, found, diagnosis.CheckQuorum, diagnosis.OK, "1 of 1 voting members")
	requireAtMost(t, found, diagnosis.Note, diagnosis.CheckLatency)
}

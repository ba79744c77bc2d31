package diagnosis

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecond = time.Second

// leasedKV returns a key on lease 1, 2 or 3 of a node.
func leasedKV(key, value string, lease, revision int64) state.KV {
	return state.KV{Key: key, Value: []byte(value), Lease: lease, CreateRevision: revision, ModRevision: revision}
}

// nodeRecord returns the record of the node on a lease, with more fields in JSON.
func nodeRecord(lease int, more string) string {
	return fmt.Sprintf(`{"instance_id":"i%d","lease":%d,"ttl":10%s}`, lease, lease, more)
}

func shardMap(version, shards int) string {
	return fmt.Sprintf(`{"version":%d,"shards":%d,"generation":1,"grants":[],"moves":[]}`, version, shards)
}

// healthyFacts returns the facts of a healthy cluster: an etcd of three members, and two nodes. Each call returns new
// values.
func healthyFacts(t *testing.T, kvs ...state.KV) Facts {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	if kvs == nil {
		kvs = []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2), leasedKV("/goverse/leader/2", "b:1", 2, 4),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"shards":16`), 1, 3),
			leasedKV("/goverse/nodes/b:1", nodeRecord(2, `,"shards":16`), 2, 5)}
	}
	f := Facts{Prefix: "/goverse", TTL: 10 * testSecond,
		Members: []Member{{ID: 1, Name: "m1"}, {ID: 2, Name: "m2"}, {ID: 3, Name: "m3"}},
		KeyTest: KeyTest{Tried: true, Written: time.Millisecond, Seen: time.Millisecond},
		State:   &State{KVs: kvs, Snapshot: state.BuildSnapshot(keys, 1, 9, kvs)},
		Leases: LeaseFacts{Total: 2, ByID: map[int64]Lease{1: {8 * testSecond, 10 * testSecond},
			2: {8 * testSecond, 10 * testSecond}}}}
	for i := range 3 {
		f.Endpoints = append(f.Endpoints, Endpoint{Address: fmt.Sprintf("e%d:1", i+1), Granted: 10 * testSecond,
			Status: &Status{Version: "3.7.3", MemberID: uint64(i + 1), Leader: 1, Size: 10 << 20, InUse: 5 << 20,
				Quota: 2 << 30},
			Reads: []time.Duration{time.Millisecond}, Writes: []time.Duration{time.Millisecond},
			Clock: &Clock{-testSecond, testSecond / 2}})
	}
	for _, r := range access.Ranges(keys, access.Node) {
		f.Access = append(f.Access, Access{Range: r})
	}
	for _, m := range f.State.Snapshot.Members {
		f.Nodes = append(f.Nodes, Node{Address: m.Address, Instance: m.InstanceID,
			HTTP: &HTTPStatus{Address: "h:1", Ready: true, Watches: 1, Watchers: 1}})
	}
	return f
}

// withCertificate adds a certificate that is valid between these times from now, besides a good one.
func withCertificate(from, to time.Duration) func(f *Facts) {
	return func(f *Facts) {
		f.Now = time.Now()
		f.Certificates = []Certificate{{"well.pem", f.Now.Add(-24 * time.Hour), f.Now.Add(90 * 24 * time.Hour)},
			{"x.pem", f.Now.Add(from), f.Now.Add(to)}}
	}
}

// Certificates that were renewed in time are one finding, and so are endpoints that do not answer.
func TestCertificatesThatAreWell(t *testing.T) {
	f := Facts{}
	withCertificate(-time.Hour, 24*time.Hour)(&f)
	require.Equal(t, []Finding{{Check: CheckCerts, Severity: OK,
		Description: "2 certificates seen; the first to expire is that of x.pem, in 24h0m0s"}}, diagnoseCertificates(f))
	require.Empty(t, diagnoseCertificates(Facts{}))
}

func TestSomeEndpointsDoNotAnswer(t *testing.T) {
	gone := &Failure{Description: "gone"}
	f := Facts{Endpoints: []Endpoint{{Address: "a:1", Failure: gone}, {Address: "b:1", Failure: gone}, {Address: "c:1"}},
		Members: []Member{{Clients: []string{"http://d:1"}}, {Clients: []string{"http://l:1"}, Learner: true}}}
	require.Equal(t, []Finding{{Check: CheckEndpoints, Severity: Warning, Description: "2 of 3 endpoints do not answer",
		Remedy: "start those members again; or if they are at other addresses now, name these: etcd's members advertise " +
			"http://d:1"}}, diagnosePartialOutage(f))
	f.Endpoints[2].Failure = gone
	require.Empty(t, diagnosePartialOutage(f), "each says so")
	require.Empty(t, diagnosePartialOutage(Facts{Endpoints: []Endpoint{{}, {}}}))
}

// One change from the healthy facts is found by one check alone.
func TestEachRule(t *testing.T) {
	for name, c := range map[string]struct {
		alter    func(f *Facts)
		kvs      []state.KV
		check    string
		severity Severity
		says     string
	}{
		"an expired certificate": {alter: withCertificate(-90*24*time.Hour, -time.Hour), check: CheckCerts, severity: Problem,
			says: "the certificate of x.pem expired 1h0m0s ago"},
		"a certificate of the future": {alter: withCertificate(time.Hour, 90*24*time.Hour), check: CheckCerts,
			severity: Problem, says: "the certificate of x.pem is not valid yet"},
		"a certificate's last two weeks": {alter: withCertificate(-90*24*time.Hour, 13*24*time.Hour+time.Minute),
			check: CheckCerts, severity: Warning, says: "the certificate of x.pem expires in 13 days"},
		"the last third of a short one": {alter: withCertificate(-17*time.Hour, 7*time.Hour), check: CheckCerts,
			severity: Warning, says: "the certificate of x.pem expires in 7h0m0s"},
		"a learner": {alter: func(f *Facts) { f.Endpoints[2].Status.Learner, f.Members[2].Learner = true, true },
			check: CheckLearners, severity: Warning, says: "e3:1 is a learner"},
		"corrupt": {alter: func(f *Facts) { f.Endpoints[0].Status.Errors = []string{"memberID:1 alarm:CORRUPT "} },
			check: CheckAlarms, severity: Problem, says: "CORRUPT"},
		"alarm by health": {alter: func(f *Facts) { f.Endpoints[0].Health = "ALARM NOSPACE" },
			check: CheckAlarms, severity: Problem, says: "NOSPACE"},
		"nearly full": {alter: func(f *Facts) { f.Endpoints[1].Status.Size = 1800 << 20 },
			check: CheckSpace, severity: Warning, says: "e2:1 has 1800 MiB, of which 5 are in use, of the 2048 MiB"},
		"nearly full, and old": {alter: func(f *Facts) {
			f.Endpoints[1].Status.Size, f.Endpoints[1].Status.Quota = 1800<<20, 0
		}, check: CheckSpace, severity: Warning, says: "etcd's default quota"},
		"an old member": {alter: func(f *Facts) { f.Endpoints[1].Status.Version = "3.5.12" },
			check: CheckVersions, severity: Warning, says: "etcd 3.5.12 at e2:1 can revoke"},
		"an upgrade of etcd": {alter: func(f *Facts) { f.Endpoints[1].Status.Version = "3.6.1" },
			check: CheckVersions, severity: Note, says: "different versions: 3.7.3, 3.6.1"},
		"two leaders of etcd": {alter: func(f *Facts) { f.Endpoints[1].Status.Leader = 2 },
			check: CheckQuorum, severity: Warning, says: "do not agree on their leader"},
		"two members of etcd": {alter: func(f *Facts) { f.Members, f.Endpoints = f.Members[:2], f.Endpoints[:2] },
			check: CheckQuorum, severity: Note, says: "stands the loss of neither"},
		"slow once": {alter: func(f *Facts) {
			f.Endpoints[0].Reads = []time.Duration{1, 1, 3 * testSecond}
		}, check: CheckLatency, severity: Warning, says: "too slow once"},
		"no reads at one": {alter: func(f *Facts) {
			f.Endpoints[0].Reads, f.Endpoints[0].ReadError = nil, "no answer within the time-out"
		}, check: CheckLatency, severity: Warning, says: "e1:1 answers no linearizable read"},
		"no renewals": {alter: func(f *Facts) { f.Endpoints[1].RenewError = "no answer within the time-out" },
			check: CheckLatency, severity: Problem, says: "e2:1 does not renew a lease: no answer within the time-out"},
		"a clock": {alter: func(f *Facts) { f.Endpoints[1].Clock = &Clock{-9 * testSecond, -8 * testSecond} },
			check: CheckClocks, severity: Warning, says: "the clock of this machine is at least 8s ahead of that of etcd at " +
				"e2:1"},
		"no right": {alter: func(f *Facts) { f.Access[3].NoRead, f.Access[3].NoWrite = true, f.Access[3].Parts },
			check: CheckAccess, severity: Problem, says: "etcd denies the user READ and WRITE on the range /goverse/leader-"},
		"no watch": {alter: func(f *Facts) { f.Access[3].NoWatch = true },
			check: CheckAccess, severity: Problem, says: "denies the user watches on the range"},
		"not tried": {alter: func(f *Facts) { f.Access[0].Failed = "silence" },
			check: CheckAccess, severity: Warning, says: "could not be tried"},
		"a watch that shows nothing": {alter: func(f *Facts) { f.KeyTest.Failed = "no answer within the time-out" },
			check: CheckAccess, severity: Problem, says: "a key of goversed doctor's own"},
		"nobody is queued": {kvs: []state.KV{leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3)},
			check: CheckLeader, severity: Problem, says: "no node is queued"},
		"a stray behind the leader": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/leader/x", "x", 0, 4)},
			check: CheckLeader, severity: Warning, says: "will lead when those before it are gone"},
		"an outside candidate": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/leader/2", "x", 2, 4)},
			check: CheckLeader, severity: Note, says: "waits in the election's queue; its lease of 10s has 8s left"},
		"an election that fails": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"election_failed":true,"reason":"denied"`), 1, 3)},
			check: CheckFallback, severity: Problem, says: "the election of a:1 does not work: denied"},
		"a request of another program": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/leader-request", "x", 0, 4)},
			check: CheckValues, severity: Warning, says: "/goverse/leader-request cannot be read"},
		"the original goverse": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/shard/0", "b:1,b:1", 0, 4)},
			check: CheckValues, severity: Problem, says: "the original goverse (github.com/xiaonanln/goverse) uses the prefix"},
		"a map of a newer version": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/shards/map", shardMap(99, 16), 0, 4)},
			check: CheckValues, severity: Problem, says: "nor by nodes of that"},
		"a member of a newer format": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"format":2`), 1, 3)},
			check: CheckValues, severity: Problem, says: "/goverse/nodes/a:1 cannot be read by the version of this goversed"},
		"an older release": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3),
			leasedKV("/goverse/nodes/b:1", nodeRecord(2, `,"goverse":"v0.2.0","formats":{"oldest":1,"newest":2}`), 2, 4)},
			check: CheckVersions, severity: Note, says: "one of before formats (format 1), v0.2.0 (format 1 to 2); the " +
				"cluster may use format 1, decided by a:1"},
		"a map with other shards": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"shards":16`), 1, 3),
			leasedKV("/goverse/shards/map", shardMap(1, 17), 0, 4)},
			check: CheckShards, severity: Problem, says: "the shard map has 17 shards, and the nodes have another number: 16 " +
				"at a:1"},
		"another lease": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 2, 3)},
			check: CheckLeases, severity: Warning, says: "on another lease (2) than it says (1)"},
		"a long lease": {alter: func(f *Facts) { f.Leases.ByID[1] = Lease{1000 * time.Hour, 1000 * time.Hour} },
			check: CheckLeases, severity: Warning, says: "the lease 1, which keys of the cluster are on, goes on for 1000h"},
		"empty leases": {alter: func(f *Facts) { f.Leases.Total, f.Leases.Examined, f.Leases.Empty = 900, 256, 200 },
			check: CheckLeases, severity: Warning, says: "200 of 256 leases"},
		"a far node": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3),
			leasedKV("/goverse/nodes/b:1", nodeRecord(2, `,"round_trip_ms":1000`), 2, 4)},
			check: CheckCrashes, severity: Warning, says: "b:1 is so far from etcd (1s for one request, a TTL of 10s)"},
		"a node too far for its silence time-out": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"round_trip_ms":280`), 1, 3),
			leasedKV("/goverse/nodes/b:1", nodeRecord(2, `,"round_trip_ms":280`), 2, 4)},
			alter: func(f *Facts) { f.Nodes[0].HTTP.SilenceTimeout = 3500 * time.Millisecond },
			check: CheckCrashes, severity: Warning, says: "the node a:1 is so far from etcd (280ms for one request, a silence " +
				"time-out of 3.5s) that it has no silence time-out"},
		"an accused node": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes-accused/b:1/i1", `{"incarnation":4,"evidence":"refused"}`, 1, 5),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/nodes/b:1", nodeRecord(2, ""), 2, 4)},
			check: CheckCrashes, severity: Warning, says: "b:1 is accused of being gone by a:1: refused"},
		"a leader that does not answer": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes-silent/a:1/i2", `{"incarnation":3,"silent_ms":4100}`, 2, 5),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/nodes/b:1", nodeRecord(2, ""), 2, 4)},
			check: CheckCrashes, severity: Problem, says: "the leader, a:1 does not answer: for 4s at least, seen by 1 node;"},
		"another that does not answer": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes-silent/b:1/i1", `{"incarnation":4,"silent_ms":2000}`, 1, 5),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, ""), 1, 3), leasedKV("/goverse/nodes/b:1", nodeRecord(2, ""), 2, 4)},
			check: CheckCrashes, severity: Problem, says: "the node b:1 does not answer: for 2s at least, seen by 1 node;"},
		"nobody watches it": {alter: func(f *Facts) { f.Nodes[0].HTTP.Watchers = 0 },
			check: CheckCrashes, severity: Warning, says: "watches 1 others and is watched by 0"},
		"not ready": {alter: func(f *Facts) { f.Nodes[0].HTTP.Ready = false },
			check: CheckHTTP, severity: Warning, says: "a:1 says that it is not ready"},
		"no trust": {alter: func(f *Facts) { f.Nodes[0].HTTP.Failed, f.Nodes[0].HTTP.Untrusted = "x509", true },
			check: CheckHTTP, severity: Note, says: "h:1 has a certificate that is not trusted here: x509"},
		"status everywhere": {alter: func(f *Facts) { f.Nodes[0].HTTP.Address = "0.0.0.0:48001" },
			check: CheckHTTP, severity: Warning, says: "0.0.0.0:48001, which means another machine to every other host"},
		"no status": {alter: func(f *Facts) { f.Nodes[0].HTTP.Failed = "refused" },
			check: CheckHTTP, severity: Note, says: "h:1 does not answer from here: refused"},
		"another TTL": {alter: func(f *Facts) { f.TTL = 9 * testSecond },
			check: CheckTTL, severity: Warning, says: "a TTL of 10s where 9s are asked for"},
		"nodes with another TTL": {alter: func(f *Facts) {
			f.TTL = 5 * testSecond
			for i := range f.Endpoints {
				f.Endpoints[i].Granted = f.TTL
			}
		}, check: CheckTTL, severity: Note, says: "the node a:1 has a TTL of 10s, and etcd is judged here by 5s"},
		"nothing but etcd": {alter: func(f *Facts) { f.Unread, f.State = "silence", nil },
			check: CheckUnread, severity: Warning, says: "although etcd answers: silence"},
		"more nodes than are asked": {alter: func(f *Facts) { f.NodesLeft = 3 },
			check: CheckAddresses, severity: Note, says: "3 further nodes were not asked"},
		"other versions of nodes": {kvs: []state.KV{leasedKV("/goverse/leader/1", "a:1", 1, 2),
			leasedKV("/goverse/nodes/a:1", nodeRecord(1, `,"version":"v1"`), 1, 3), leasedKV("/goverse/nodes/b:1", nodeRecord(2,
				`,"version":"v2"`), 2, 4)},
			check: CheckVersions, severity: Note, says: "nodes run different versions: v1, v2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthyFacts(t, c.kvs...)
			if c.alter != nil {
				c.alter(&f)
			}
			all := Diagnose(f)
			found := false
			for _, one := range all {
				require.True(t, one.Severity <= Note || one.Remedy != "", "%v", one)
				require.NotContains(t, one.Description+one.Remedy, "\n")
				require.NotContains(t, one.Description+one.Remedy, "%!")
				if one.Check == c.check && strings.Contains(one.Description, c.says) {
					found = true
					require.Equal(t, c.severity, one.Severity)
				}
				require.True(t, one.Check == c.check || one.Severity <= Note || one.Severity < c.severity, "beside it: %v", one)
			}
			require.True(t, found, "%v", all)
		})
	}
}

func TestNothingIsWrong(t *testing.T) {
	all := Diagnose(healthyFacts(t))
	require.Equal(t, OK, Worst(all), "%v", all)
	require.NotEmpty(t, all)
	require.Equal(t, Problem, Worst(append(all, Finding{Severity: Problem}, Finding{Severity: Note})))
}

// The mark that a node was removed for its silence is no accusation to report.
func TestMarkOfRemovalIsNoFinding(t *testing.T) {
	f := healthyFacts(t)
	mark := leasedKV(f.State.Snapshot.Keys.Accusation("gone:1", "i1"),
		state.AccusationRecord{Incarnation: 99, Evidence: "silence", Removed: true}.Encode(), 1, 100)
	f.State.Snapshot = f.State.Snapshot.Apply(100, []state.Event{{KV: mark}})
	require.Len(t, f.State.Snapshot.Accusations, 1)
	require.Equal(t, OK, Worst(Diagnose(f)))
}

// Diagnose does not panic on empty facts.
func TestNoFacts(t *testing.T) {
	require.Empty(t, Diagnose(Facts{}))
	require.Equal(t, []Finding{{Check: CheckUnread, Severity: Note,
		Description: "the cluster itself was not looked at: why",
		Remedy:      "run goversed doctor again when that is repaired"}}, Diagnose(Facts{Unread: "why"}))
}

func TestSeverityAsText(t *testing.T) {
	for s := OK; s <= Problem; s++ {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		var read Severity
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, s, read)
	}
	require.Error(t, json.Unmarshal([]byte(`"bad"`), new(Severity)))
}

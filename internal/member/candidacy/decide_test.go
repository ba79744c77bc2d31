package candidacy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

const (
	ownLease   = 1
	otherLease = 2
	thirdLease = 3
	// The candidate's key of an outsider: no member has this lease.
	outsideLease = 9
)

func keysForTest() state.Keys {
	keys, err := state.NewKeys("/goverse")
	if err != nil {
		panic(err)
	}
	return keys
}

// given is a snapshot under construction. The members a:1, b:1 and c:1 are on leases 1, 2 and 3, and this node
// is a:1.
type given struct {
	kvs      []state.KV
	revision int64
	failed   string // addresses of members with a failed election
	stopping string
	draining string
}

func (sc given) build() *state.Snapshot {
	keys := keysForTest()
	kvs := sc.kvs
	for lease, address := range map[int64]string{ownLease: "a:1", otherLease: "b:1", thirdLease: "c:1"} {
		record := state.Record{Lease: lease, ElectionFailed: strings.Contains(sc.failed, address),
			Stopping: strings.Contains(sc.stopping, address), Draining: strings.Contains(sc.draining, address)}
		kvs = append(kvs, state.KV{Key: keys.Node(address), Value: []byte(record.Encode()), CreateRevision: lease,
			ModRevision: lease, Lease: lease})
	}
	return state.BuildSnapshot(keys, 1, max(sc.revision, 100), kvs)
}

func queued(lease int64, revision int64) state.KV {
	address := map[int64]string{ownLease: "a:1", otherLease: "b:1", thirdLease: "c:1", outsideLease: "who"}[lease]
	return state.KV{Key: keysForTest().Candidate(lease), Value: []byte(address), CreateRevision: revision,
		ModRevision: revision, Lease: lease}
}

func acts(lease int64, revision int64) state.KV {
	kv := queued(lease, revision)
	kv.Key = keysForTest().Acting()
	return kv
}

func request(kind state.RequestKind, token int64, target string, incarnation int64) state.KV {
	return state.KV{Key: keysForTest().Request(), CreateRevision: 99, ModRevision: 99,
		Value: []byte(state.RequestRecord{Kind: kind, Token: token, Target: target, Incarnation: incarnation}.Encode())}
}

func TestDecide(t *testing.T) {
	own := queued(ownLease, 20)
	altered := own
	altered.Value, altered.ModRevision = []byte("x"), 50
	unleased := own
	unleased.Lease, unleased.ModRevision = 0, 51
	leads := func(lead int64) decision { return decision{lead: lead} }
	does := func(do Action, rev int64) decision {
		return decision{action: do, revision: rev}
	}

	for _, tc := range []struct {
		name  string
		given given
		with  func(v *view)
		want  decision
	}{
		// Leading.
		{"first in the queue", given{kvs: []state.KV{own, queued(otherLease, 21)}}, nil, leads(20)},
		{"first, and perhaps removed", given{kvs: []state.KV{own}}, func(v *view) { v.suspected = true }, leads(0)},
		{"leading, and perhaps removed", given{kvs: []state.KV{own}}, func(v *view) { v.suspected, v.term.Token = true, 20 },
			leads(20)},
		{"second in the queue", given{kvs: []state.KV{own, queued(otherLease, 19)}}, nil, leads(0)},
		{"behind an outside candidate", given{kvs: []state.KV{own, queued(outsideLease, 19)}}, nil, leads(0)},
		{"first, session not valid", given{kvs: []state.KV{own}}, func(v *view) { v.valid = false }, leads(0)},
		{"first, an acting leader's key still stands", given{kvs: []state.KV{own, acts(otherLease, 15)}}, nil, leads(0)},
		{"leads on while a write is under way", given{kvs: []state.KV{own}},
			func(v *view) { v.term.Token, v.requestInFlight = 20, true }, leads(20)},
		{"a new term waits for the old term's work", given{kvs: []state.KV{own}}, func(v *view) { v.working = true },
			leads(0)},
		{"a term goes on whatever the work of an older one", given{kvs: []state.KV{own}},
			func(v *view) { v.term.Token, v.working = 20, true }, leads(20)},

		// A barred key never comes back.
		{"barred key: delete, do not lead", given{kvs: []state.KV{own}}, func(v *view) { v.barred = 20 },
			does(LeaveQueue, 20)},
		{"barred key: only when the work is done", given{kvs: []state.KV{own}},
			func(v *view) { v.barred, v.working = 20, true }, leads(0)},
		{"barred key, its deletion confirmed: wait for the snapshot", given{kvs: []state.KV{own}},
			func(v *view) { v.barred, v.gone = 20, 20 }, leads(0)},
		{"a newer key than the barred one is adopted", given{kvs: []state.KV{own}},
			func(v *view) { v.barred, v.gone = 19, 19 }, leads(20)},
		{"a reappeared key nobody wants is deleted", given{kvs: []state.KV{own}}, func(v *view) { v.standing = false },
			does(LeaveQueue, 20)},

		// Joining.
		{"no key: campaign", given{}, nil, does(JoinQueue, 0)},
		{"observer", given{}, func(v *view) { v.standing = false }, leads(0)},
		{"no key, session not valid", given{}, func(v *view) { v.valid = false }, leads(0)},
		{"no key, the wait after a failure is not over", given{}, func(v *view) { v.retryDue = false }, leads(0)},
		{"the snapshot is older than the barred key: absence proves nothing", given{}, func(v *view) { v.barred = 101 },
			leads(0)},
		{"campaign under way, no key yet", given{}, func(v *view) { v.campaign.running = true }, leads(0)},
		{"campaign has a key that the snapshot cannot show yet", given{}, func(v *view) { v.campaign = campaign{true, 101} },
			leads(0)},
		{"campaign returned before the snapshot shows its key", given{}, func(v *view) { v.campaign = campaign{false, 101} },
			leads(0)},
		{"campaign whose key vanished: join anew", given{}, func(v *view) { v.campaign = campaign{true, 90} },
			does(JoinQueue, 0)},
		{"stopping with a campaign under way", given{}, func(v *view) { v.campaign.running, v.standing = true, false },
			does(EndCampaign, 0)},

		// Repairing.
		{"the value was altered", given{kvs: []state.KV{altered, queued(otherLease, 19)}}, nil, does(RepairKey, 50)},
		{"taken off the lease", given{kvs: []state.KV{unleased, queued(otherLease, 19)}}, nil, does(RepairKey, 51)},

		// Requests.
		{"asked to resign", given{kvs: []state.KV{own, queued(otherLease, 21), request(state.RequestResign, 20, "", 0)}}, nil,
			does(LeaveQueue, 20)},
		{"the request names another term", given{kvs: []state.KV{own, request(state.RequestResign, 18, "", 0)}}, nil,
			leads(20)},
		{"a waiting candidate is not asked to resign", given{kvs: []state.KV{queued(otherLease, 19), own,
			request(state.RequestResign, 19, "", 0)}}, nil, leads(0)},
		{"transfer to the next", given{kvs: []state.KV{own, queued(otherLease, 21), request(state.RequestTransfer, 20, "b:1",
			otherLease)}}, nil, does(LeaveQueue, 20)},
		{"transfer past another: the leader waits", given{kvs: []state.KV{own, queued(thirdLease, 21), queued(otherLease,
			22), request(state.RequestTransfer, 20, "b:1", otherLease)}}, nil, leads(20)},
		{"transfer past this one: it lets the target pass", given{kvs: []state.KV{queued(thirdLease, 19), own,
			queued(otherLease, 22), request(state.RequestTransfer, 19, "b:1", otherLease)}}, nil, does(LeaveQueue, 20)},
		{"behind the target nobody moves", given{kvs: []state.KV{queued(thirdLease, 18), queued(otherLease, 19), own,
			request(state.RequestTransfer, 18, "b:1", otherLease)}}, nil, leads(0)},
		{"the target is another incarnation", given{kvs: []state.KV{own, queued(otherLease, 21),
			request(state.RequestTransfer,
				20, "b:1", 77)}}, nil, leads(20)},
		{"an outside candidate stands between", given{kvs: []state.KV{own, queued(outsideLease, 21), queued(otherLease, 22),
			request(state.RequestTransfer, 20, "b:1", otherLease)}}, nil, leads(20)},
		{"the target does not stand", given{kvs: []state.KV{own, request(state.RequestTransfer, 20, "b:1", otherLease)}}, nil,
			leads(20)},

		// Fallback.
		{"no leader is not a failed election", given{}, func(v *view) { v.retryDue = false }, leads(0)},
		{"failed, smallest: act", given{failed: "a:1 b:1"}, failedNow, does(CreateActing, 0)},
		{"failed, smallest, but it is only the own word", given{failed: "b:1"}, failedNow, leads(0)},
		{"failed, the smaller one's election works", given{failed: "a:1"}, failedNow, does(CreateActing, 0)},
		{"failed, fallback switched off", given{failed: "a:1"}, func(v *view) { failedNow(v); v.cfg.Fallback = false },
			leads(0)},
		{"failed, stopping", given{failed: "a:1 b:1", stopping: "a:1"}, failedNow, leads(0)},
		{"failed, draining: shards are another matter", given{failed: "a:1 b:1", draining: "a:1"}, failedNow,
			does(CreateActing, 0)},
		{"failed, somebody queues", given{failed: "a:1", kvs: []state.KV{queued(otherLease, 30)}}, failedNow, leads(0)},
		{"failed, another acts", given{failed: "a:1", kvs: []state.KV{acts(otherLease, 30)}}, failedNow, leads(0)},
		{"acts", given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30)}}, failedNow, decision{lead: 30,
			acting: true}},
		{"acts, somebody queues: lower the flag, delete the key", given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30),
			queued(otherLease, 31)}}, failedNow, does(DeleteActing, 30)},
		{"acts, the election works again", given{kvs: []state.KV{acts(ownLease, 30)}}, nil, does(DeleteActing, 30)},
		{"acted and queues, stopping: the acting key first", given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30),
			queued(ownLease, 31)}}, func(v *view) { failedNow(v); v.standing = false }, does(DeleteActing, 30)},
		{"the acting key's deletion is confirmed: wait for the snapshot", given{failed: "a:1",
			kvs: []state.KV{acts(ownLease, 30), queued(ownLease,
				31)}}, func(v *view) { failedNow(v); v.standing, v.gone = false, 30 }, leads(0)},
		{"acts under a barred key", given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30)}},
			func(v *view) { failedNow(v); v.barred = 30 }, does(DeleteActing, 30)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := view{snapshot: tc.given.build(), valid: true, retryDue: true,
				Candidacy: New(Settings{Address: "a:1", Fallback: true}, true).OnSession(ownLease, 10*time.Second)}
			if tc.with != nil {
				tc.with(&v)
			}
			require.Equal(t, tc.want, decide(v))
		})
	}
}

func failedNow(v *view) { v.failed, v.retryDue = true, false }

// Two members never both lead by one snapshot, nor by two of one history if the later one shows that the
// earlier leader's key is gone. Here for every order of three.
func TestOneSnapshotHasOneLeader(t *testing.T) {
	for _, order := range [][3]int64{{20, 21, 22}, {21, 20, 22}, {22, 21, 20}} {
		s := given{kvs: []state.KV{queued(ownLease, order[0]), queued(otherLease, order[1]), queued(thirdLease,
			order[2])}}.build()
		leaders := 0
		for lease, address := range map[int64]string{ownLease: "a:1", otherLease: "b:1", thirdLease: "c:1"} {
			if decide(view{snapshot: s, valid: true, Candidacy: New(Settings{Address: address}, true).OnSession(lease,
				10*time.Second)}).lead != 0 {
				leaders++
			}
		}
		require.Equal(t, 1, leaders)
	}
}

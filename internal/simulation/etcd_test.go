package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
	"github.com/goverse/goverse/internal/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The simulated etcd does what a real one does: random changes, with guards that hold
// and that do not, on leases that live and that were revoked, give the same answers, the
// same keys and the same history.
func TestTheSimulatedEtcdAgreesWithARealOne(t *testing.T) {
	ctx, client := etcdtest.Context(t), etcdtest.Client(t)

	w := &world{Rand: newRand(7), ttl: time.Minute, keys: keys}
	w.etcd = &etcd{w: w, revision: 1, term: 1}
	names := []string{keys.Candidate(0x71), keys.Candidate(0x72), keys.Candidate(0x73), keys.Acting(), keys.Request(),
		keys.Node("a:1"), keys.Node("b:1")}
	real := map[int64]clientv3.LeaseID{0: clientv3.NoLease}
	simulated := map[int64]int64{0: 0}
	leases := []int64{0}
	before, err := client.Get(ctx, "none")
	require.NoError(t, err)
	require.EqualValues(t, 1, before.Header.Revision)

	held, failed, refused := 0, 0, 0
	for range 600 {
		switch w.IntN(20) {
		case 0:
			grant, err := client.Grant(ctx, 60)
			require.NoError(t, err)
			a := w.etcd.grant()
			real[a.lease], simulated[int64(grant.ID)] = grant.ID, a.lease
			leases = append(leases, a.lease)
			continue
		case 1:
			id := leases[w.IntN(len(leases))]
			_, err := client.Revoke(ctx, real[id])
			_, simErr := w.etcd.revoke(nil, id)
			require.Equal(t, errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(simErr, errNoLease))
			continue
		}
		c := randomChange(w, names, leases)
		a, simErr := w.etcd.execute(nil, c)
		resp, err := txn.Commit(ctx, client, onRealLeases(c, real))
		if simErr != nil {
			require.ErrorIs(t, simErr, errNoLease)
			require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
			refused++
			continue
		}
		require.NoError(t, err)
		require.Equal(t, resp.Succeeded, a.held, "%+v", c)
		require.Equal(t, resp.Header.Revision, a.revision, "%+v", c)
		if a.held {
			held++
		} else {
			failed++
		}
	}
	require.Greater(t, held, 100)
	require.Greater(t, failed, 100)
	require.Greater(t, refused, 5)

	now, err := client.Get(ctx, "/g/", clientv3.WithPrefix())
	require.NoError(t, err)
	for i, kv := range w.etcd.keys {
		require.Equal(t, kv, asKV(now.Kvs[i], simulated))
	}
	require.Len(t, now.Kvs, len(w.etcd.keys))

	history := client.Watch(ctx, "/g/", clientv3.WithPrefix(), clientv3.WithRev(2))
	var seen []state.Event
	for len(seen) < len(w.etcd.history) {
		for _, ev := range (<-history).Events {
			kv := asKV(ev.Kv, simulated)
			if ev.Type == mvccpb.Event_DELETE {
				kv = state.KV{Key: kv.Key, ModRevision: kv.ModRevision}
			}
			seen = append(seen, state.Event{KV: kv, Deleted: ev.Type == mvccpb.Event_DELETE})
		}
	}
	require.Equal(t, w.etcd.history, seen)
}

func asKV(kv *mvccpb.KeyValue, simulated map[int64]int64) state.KV {
	return state.KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
		Lease: simulated[kv.Lease]}
}

// randomChange looks like one of package txn's: at most one operation a key, for
// etcd refuses two.
func randomChange(w *world, names []string, leases []int64) txn.Txn {
	guard := func() txn.Guard {
		g := txn.Guard{Key: pick(w, names), Field: txn.Field(w.IntN(2))}
		if w.chance(4) {
			g.Key, g.End = keys.Queue(), keys.QueueEnd()
		}
		if kv := w.etcd.get(g.Key); kv != nil && w.chance(2) {
			g.Is = field(kv, g.Field)
		} else if w.chance(4) {
			g.Is = w.Int64N(w.etcd.revision + 1)
		}
		return g
	}
	ops := func() []txn.Op {
		var out []txn.Op
		for _, i := range w.Perm(len(names))[:w.IntN(4)] {
			op := txn.Op{Kind: txn.Kind(w.IntN(3)), Key: names[i]}
			if op.Kind == txn.Put {
				op.Value, op.Lease = fmt.Sprint(w.IntN(5)), pick(w, leases)
			}
			out = append(out, op)
		}
		return out
	}
	c := txn.Txn{Then: ops(), Else: ops()}
	for range w.IntN(3) {
		c.If = append(c.If, guard())
	}
	return c
}

func onRealLeases(c txn.Txn, real map[int64]clientv3.LeaseID) txn.Txn {
	translate := func(ops []txn.Op) (out []txn.Op) {
		for _, op := range ops {
			op.Lease = int64(real[op.Lease])
			out = append(out, op)
		}
		return out
	}
	return txn.Txn{If: c.If, Then: translate(c.Then), Else: translate(c.Else)}
}

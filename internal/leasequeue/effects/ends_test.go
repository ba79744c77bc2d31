//go:build unix

package effects_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/processtest"
	"github.com/goverse/goverse/internal/test/testbed"
)

var (
	count = flag.Int("marks", 3000, "how many marks of effects end in TestMarksEnd; 1000000 with -marks.retention "+
		"10m is the full run")
	kept = flag.Duration("marks.retention", 3*time.Second,
		"for how long they are kept: they are to be written within that time")
	size     = flag.Int("marks.members", 1, "how many members etcd has")
	perLease = flag.Int("marks.perlease", 0, "how many share a lease, all of one TTL; 0 is as effects have it")
	program  = flag.String("marks.etcd", "", "an etcd to run; empty: the one that the module requires")
	control  = flag.Bool("marks.control", false, "measure another etcd at the same time, in which nothing ends: what "+
		"the machine's other work does")
	slowest = flag.Duration("marks.slowest", 0, "how long a request of another client's may take meanwhile; 200ms on "+
		"a quiet machine, 0 is any time")
)

// Marks expire while other clients work. Before that etcd's leader changes, so all leases start anew, and marks
// that were written over some time expire together.
func TestMarksEnd(t *testing.T) {
	t.Parallel()
	etcd := startMembers(t, *size)
	patience := 3**kept + 5*time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	like, keeper := aMark(ctx, t, etcd, keys)

	before, err := etcd.figures()
	require.NoError(t, err)
	began := time.Now()
	leases := writeMarks(ctx, t, etcd.clients[0], keys, like)
	t.Logf("%d marks of %d bytes written in %v, on %d leases", *count, len(like),
		time.Since(began).Round(time.Millisecond), len(leases))
	require.Less(t, time.Since(began), *kept+grantTimeout(),
		"all are to be written before the first ends: -marks.retention")
	if *perLease == 0 {
		for id, n := range leases {
			require.LessOrEqual(t, n, effects.MarksPerLease, "on lease %x", id)
		}
	}

	changed := time.Now()
	etcd.changeLeader(ctx, t)
	probes, idle := startProbes(ctx, t, etcd.clients), startProbes(ctx, t, nil)
	if *control {
		idle = startProbes(ctx, t, startMembers(t, 1).clients)
	}
	report := func(when string) map[string][]time.Duration {
		took, errs := probes.next()
		t.Log(when, summary(took, errs))
		if *control {
			t.Log("the other etcd, in which nothing ends, at that time: ", summary(idle.next()))
		}
		if *slowest > 0 {
			require.Empty(t, errs)
		}
		return took
	}
	var start, end figures
	await(t, patience, "marks begin to end", func() (done bool, err error) {
		start, err = etcd.figures()
		return start.keys < before.keys+*count, err
	})
	first := time.Now()
	require.Greater(t, first.Sub(changed), *kept+grantTimeout())
	report("before they end: ")
	held := keeper.Current()

	few := before.keys + 100 // the probes' keys too
	await(t, patience, "all marks end", func() (done bool, err error) {
		if end, err = etcd.figures(); err != nil || end.keys > few {
			return false, err // counting the marks would cost etcd more
		}
		resp, err := etcd.clients[0].Get(ctx, keys.EffectMarks(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == 1, err // the mark with a longer retention
	})
	over := time.Since(first)
	t.Logf("they ended within %v, %d leases; etcd used %.1f s of processors, %.2f at a time; its database has %d MiB",
		over.Round(time.Millisecond), end.expired-start.expired, end.cpu-start.cpu, (end.cpu-start.cpu)/over.Seconds(),
		end.size>>20)
	probes.stop()
	took := report("meanwhile: ")
	if *slowest == 0 {
		return
	}
	require.Same(t, held, keeper.Current(), "a session was lost")
	for what, all := range took {
		if what != lostLease {
			require.Less(t, all[len(all)-1], *slowest, what)
		}
	}
}

// aMark returns a mark as Once writes it, and the keeper of a session at one member of etcd.
func aMark(ctx context.Context, t *testing.T, etcd *members, keys state.Keys) (string, *etcdsession.Keeper) {
	t.Helper()
	var once *effects.Effects
	process := processtest.Start(t, etcd.endpoints[0], 30*time.Second,
		func(p *processtest.Process) (func(context.Context), error) {
			queues, err := testbed.NewEngine(p, keys.Effects())
			if err != nil {
				return nil, err
			}
			once, err = effects.New(effects.Config{Queues: queues.Queues(keys.Effects()), Keys: keys,
				Owner: "10.11.12.13:47000"})
			return queues.Run, err
		})
	_, err := once.Once(ctx, "one", func(context.Context, int64) ([]byte, error) {
		return []byte(`{"message":"0190f3b2-7d7e-7c1a-9a57-5d4f0f3a2b11"}`), nil
	})
	require.NoError(t, err)
	resp, err := etcd.clients[0].Get(ctx, keys.EffectMark("one"))
	require.NoError(t, err)
	return string(resp.Kvs[0].Value), process.Keeper
}

// grantTimeout is longer than etcd takes under many writes. Leases last that much longer.
func grantTimeout() time.Duration { return max(2*time.Second, *kept/15) }

// writeMarks writes marks on leases as effects do, many in one transaction. It returns the number of marks on
// each lease.
func writeMarks(ctx context.Context, t *testing.T, client *clientv3.Client, keys state.Keys,
	like string) map[clientv3.LeaseID]int {
	t.Helper()
	const writers, ops = 8, 100
	var mu sync.Mutex
	on := map[clientv3.LeaseID]int{}
	take := effects.TakeLeases(client, *kept, grantTimeout())
	if *perLease > 0 {
		take = plainLeases(client)
	}
	var next atomic.Int64
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for errs[i] == nil {
				upTo := next.Add(ops)
				var puts []clientv3.Op
				for n := upTo - ops; n < min(upTo, int64(*count)); n++ {
					id, err := take(ctx)
					if err != nil {
						errs[i] = err
						return
					}
					mu.Lock()
					on[id]++
					mu.Unlock()
					puts = append(puts, clientv3.OpPut(keys.EffectMark(fmt.Sprintf("mail/welcome/%08d", n)), like,
						clientv3.WithLease(id)))
				}
				if len(puts) == 0 {
					return
				}
				_, errs[i] = client.Txn(ctx).Then(puts...).Commit()
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return on
}

// plainLeases returns leases for -marks.perlease marks each.
func plainLeases(client *clientv3.Client) func(context.Context) (clientv3.LeaseID, error) {
	var mu sync.Mutex
	var id clientv3.LeaseID
	room := 0
	return func(ctx context.Context) (clientv3.LeaseID, error) {
		mu.Lock()
		defer mu.Unlock()
		if room == 0 {
			resp, err := client.Grant(ctx, int64((*kept+grantTimeout())/time.Second))
			if err != nil {
				return 0, err
			}
			id, room = resp.ID, *perLease
		}
		room--
		return id, nil
	}
}

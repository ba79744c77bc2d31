package etcdlock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// The judgement of the rounds finds mutants: nodes that do not share their locks and effects, and unguarded
// writes of a holder that lost its lock.
func TestLocksMutants(t *testing.T) {
	for name, c := range map[string]struct {
		mutant lockMutant
		fault  string // fault of one node; "" means none
		found  []history.Kind
	}{
		"apart": {lockMutant{apart: true}, "", []history.Kind{history.Overlap, history.NotLinearizable, history.Doubled}},
		"unguarded": {lockMutant{unguarded: true}, untilSessionLost(faults.RenewalsStuck).name,
			[]history.Kind{history.Stale}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			bed, err := newLockTestBed(ctx, t.TempDir(), c.mutant)
			require.NoError(t, err)
			defer func() { require.NoError(t, bed.close()) }()
			if c.fault != "" {
				for _, n := range bed.nodes {
					n.work.Hold, n.work.Shared = 10*time.Minute, 0 // a lock must be held when the session is lost
				}
			}
			working, stop := context.WithCancel(ctx)
			defer stop()
			var workers sync.WaitGroup
			defer workers.Wait()
			workers.Go(func() { bed.work(working, rand.New(rand.NewPCG(1, 1))) })
			holder := bed.holder(ctx, t)
			for _, k := range lockFaults() {
				if k.name == c.fault {
					effect, err := k.do(ctx, bed, holder, rand.New(rand.NewPCG(1, 2)))
					require.NoError(t, err)
					require.True(t, effect)
				}
			}
			wait.For(ctx, time.Second)
			stop()
			workers.Wait()
			v, err := bed.judge(lockLimits)
			require.NoError(t, err)
			for _, kind := range c.found {
				require.NotEmpty(t, v.FindingsOf(kind), "%s: %v", kind, v.Summary())
			}
			t.Log(v.Summary())
		})
	}
}

// holder waits until a lock is held, and returns the holder.
func (bed *lockTestBed) holder(ctx context.Context, t *testing.T) (holder *lockNode) {
	require.Eventually(t, func() bool {
		found, err := bed.client.Get(ctx, bed.keys.Locks().QueuePrefix(lockNames[0]), clientv3.WithFirstCreate()...)
		if err != nil || len(found.Kvs) == 0 {
			return bed.mutant.apart
		}
		for _, n := range bed.nodes {
			if s := n.keeper.Current(); s != nil && int64(s.ID()) == found.Kvs[0].Lease {
				holder = n
			}
		}
		return holder != nil
	}, 10*time.Second, 5*time.Millisecond)
	return holder
}

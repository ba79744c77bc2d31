package clustertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/history"
)

// What the rounds of faults are judged by finds what is wrong: nodes that do not share their
// locks and effects, and writes that nothing guards, by a holder that lost its lock.
func TestLocksPlanted(t *testing.T) {
	for name, c := range map[string]struct {
		wrong plant
		fault string // that one node has; "": none
		found []history.Kind
	}{
		"apart":     {plant{apart: true}, "", []history.Kind{history.Overlap, history.NotLinearizable, history.Doubled}},
		"unguarded": {plant{unguarded: true}, "renewals stuck until the session is lost", []history.Kind{history.Stale}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			w, err := newLockWorld(ctx, t.TempDir(), c.wrong)
			require.NoError(t, err)
			defer func() { require.NoError(t, w.close()) }()
			if c.fault != "" {
				for _, n := range w.nodes {
					n.work.Hold, n.work.Shared = 10*time.Minute, 0 // somebody holds one when its session is lost
				}
			}
			working, stop := context.WithCancel(ctx)
			defer stop()
			var workers sync.WaitGroup
			defer workers.Wait()
			workers.Go(func() { w.work(working, rand.New(rand.NewPCG(1, 1))) })
			holder := w.holder(ctx, t)
			for _, k := range lockFaults() {
				if k.name == c.fault {
					effect, err := k.do(ctx, w, holder, rand.New(rand.NewPCG(1, 2)))
					require.NoError(t, err)
					require.True(t, effect)
				}
			}
			last(ctx, time.Second)
			stop()
			workers.Wait()
			v, err := w.judge(lockLimits)
			require.NoError(t, err)
			for _, kind := range c.found {
				require.NotEmpty(t, v.Of(kind), "%s: %v", kind, v.Summary())
			}
			t.Log(v.Summary())
		})
	}
}

// holder waits until somebody holds a lock, and says who.
func (w *lockWorld) holder(ctx context.Context, t *testing.T) (holder *lockNode) {
	require.Eventually(t, func() bool {
		found, err := w.client.Get(ctx, w.keys.Locks().Queue(lockNames[0]), clientv3.WithFirstCreate()...)
		if err != nil || len(found.Kvs) == 0 {
			return w.plant.apart
		}
		for _, n := range w.nodes {
			if s := n.keeper.Current(); s != nil && int64(s.ID()) == found.Kvs[0].Lease {
				holder = n
			}
		}
		return holder != nil
	}, 10*time.Second, 5*time.Millisecond)
	return holder
}

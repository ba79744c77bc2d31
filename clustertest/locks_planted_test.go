package clustertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
			for _, n := range w.nodes {
				n.work.Hold = lockTTL // somebody holds one when the session is lost
			}
			working, stop := context.WithCancel(ctx)
			defer stop()
			var workers sync.WaitGroup
			defer workers.Wait()
			workers.Go(func() { w.work(working, rand.New(rand.NewPCG(1, 1))) })
			last(ctx, 500*time.Millisecond)
			for _, k := range lockFaults() {
				if k.name == c.fault {
					effect, err := k.do(ctx, w, w.nodes[0], rand.New(rand.NewPCG(1, 2)))
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

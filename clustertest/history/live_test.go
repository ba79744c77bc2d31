package history

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
)

// live is three nodes that are recorded while each of them works on one register.
type live struct {
	*clustertest.Cluster
	t    *testing.T
	rec  *Recorder
	text bytes.Buffer
	end  context.CancelFunc
	wg   sync.WaitGroup
}

func newLive(t *testing.T) *live {
	l := &live{Cluster: clustertest.New(t, 3), t: t}
	l.rec = NewRecorder(&l.text, "test")
	ctx, cancel := context.WithCancel(context.Background())
	l.end = cancel
	key := "/elsewhere/register"
	for i, n := range l.Nodes() {
		l.rec.Add(Of(name(i), n.Cluster()))
		g := l.rec.Register(name(i), l.Client(), key)
		l.wg.Go(func() { g.Work(ctx, 5*time.Millisecond, TermOf(n.Cluster())) })
	}
	now, err := l.Client().Get(ctx, key)
	require.NoError(t, err)
	l.wg.Go(func() {
		if err := l.rec.Register("etcd", l.Client(), key).Follow(ctx, now.Header.Revision+1); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		l.wg.Wait()
		_ = l.rec.Stop()
	})
	return l
}

func name(i int) string { return fmt.Sprint("node", i) }

// resign makes the leader give way, and waits until it has queued again.
func (l *live) resign() {
	leader := l.WaitLeader()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(l.t, leader.Cluster().Resign(ctx))
	l.Eventually(func() bool {
		queue := leader.Cluster().Status().Queue
		return len(queue) == 3 && queue[2] == leader.Address()
	}, "who resigned queues at the tail")
}

// finish ends the recording and returns what was recorded.
func (l *live) finish() History {
	l.end()
	l.wg.Wait()
	require.NoError(l.t, l.rec.Stop())
	h, err := Read(&l.text)
	require.NoError(l.t, err)
	return h
}

func TestLeaderChangesAreClean(t *testing.T) {
	l := newLive(t)
	for range 4 {
		l.resign()
	}
	first := l.WaitLeader()
	end := l.rec.Begin(first.Address(), "cut off", "")
	first.Faults().CutOff()
	l.Eventually(func() bool { return !first.IsLeader() }, "who is cut off stops leading")
	first.Faults().Reconnect()
	end()
	l.WaitAgreed()
	v := Check(l.finish(), Limits{})
	require.True(t, v.OK(), v)
	require.GreaterOrEqual(t, v.Seen.Terms, 5)
	require.Positive(t, v.Seen.Accepted)
	require.Positive(t, v.Seen.Entries)
	t.Log(v)
}

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// startWatch runs Watch and sends the views it shows.
func startWatch(t *testing.T, o *Operator) (views <-chan View, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, result := make(chan View), make(chan error, 1)
	go func() {
		result <- o.Watch(ctx, patience, func(v View) error {
			select {
			case out <- v:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-result
	}
	t.Cleanup(func() { require.NoError(t, stop()) })
	return out, stop
}

// awaitView receives views until one matches.
func awaitView(t *testing.T, views <-chan View, wanted func(View) bool) View {
	t.Helper()
	end := time.After(20 * time.Second)
	for {
		select {
		case v := <-views:
			if wanted(v) {
				return v
			}
		case <-end:
			require.FailNow(t, "never shown")
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	first := c.Node(0)
	c.WaitLeaderIs(first.Address())
	views, stop := startWatch(t, openOperator(t, c))
	v := <-views
	require.Equal(t, first.Address(), v.LeaderID)
	require.Equal(t, []string{first.Address()}, v.Nodes)

	second := c.AddNode()
	awaitView(t, views, func(v View) bool { return len(v.Queue) == 2 && v.LeaderID == first.Address() })
	first.Stop()
	awaitView(t, views, func(v View) bool { return v.LeaderID == second.Address() && len(v.Nodes) == 1 })
	second.Stop()
	awaitView(t, views, func(v View) bool { return v.LeaderID == "" && len(v.Nodes) == 0 })
	require.NoError(t, stop(), "interrupted is not failed")
}

func TestWatchSaysThatEtcdIsSilent(t *testing.T) {
	t.Parallel()
	e, err := etcdtest.StartWith(testContext(t), etcdtest.Config{})
	require.NoError(t, err)
	defer func() { _ = e.Close() }() // closing again is fine
	views, _ := startWatch(t, openOperatorAt(t, e.Endpoint()))
	require.False(t, (<-views).Stale)
	_, err = e.Client().Put(testContext(t), "/goverse/leader/123", "elsewhere")
	require.NoError(t, err)
	awaitView(t, views, func(v View) bool { return v.LeaderID == "elsewhere" }) // now the watch is established
	require.NoError(t, e.Close())
	v := awaitView(t, views, func(v View) bool { return v.Stale })

	var out strings.Builder
	require.NoError(t, PrintChange(&out, time.Now(), v, false))
	require.Contains(t, out.String(), "etcd does not answer")
	require.Contains(t, out.String(), "leader=elsewhere")
}

// The follower of the events notices that etcd is gone, although its watch reports nothing.
func TestEventsSayThatEtcdIsSilent(t *testing.T) {
	t.Parallel()
	e, err := etcdtest.StartWith(testContext(t), etcdtest.Config{})
	require.NoError(t, err)
	defer func() { _ = e.Close() }() // closing again is fine
	said := make(chan string, 1)
	o, err := Open(t.Context(), cluster.Config{EtcdAddress: e.Endpoint(), EtcdPrefix: "/goverse"}, patience,
		OnWait(func(finding string, left time.Duration) {
			select {
			case said <- fmt.Sprint(finding, left):
			default: // the test reads one
			}
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	ctx, interrupt := context.WithCancel(testContext(t))
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		_, err := o.Events(ctx, patience, event.Query{}, true, func(event.Event) error { return nil })
		ended <- err
	}()
	_, err = e.Client().Put(testContext(t), "/goverse/x", "")
	require.NoError(t, err)
	require.NoError(t, e.Close())
	select {
	case <-said:
	case err := <-ended:
		require.FailNow(t, "it ended", "%v", err)
	}
	interrupt()
	<-ended // with an error if this was its first read
}

// A watch that is reopened makes the view stale for a moment. Only a changed state and lasting silence are
// shown.
func TestWatchLeavesMomentsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed, done := make(chan struct{}), make(chan error, 1)
		var now atomic.Pointer[state.Snapshot]
		var mu sync.Mutex // timers of the bubble do not synchronise for the race detector
		var shown []View
		go func() {
			done <- showChanges(ctx, changed, now.Load, func(v View) error {
				mu.Lock()
				defer mu.Unlock()
				shown = append(shown, v)
				return nil
			})
		}()
		next := func(revision int64, leader string, stale bool) {
			now.Store(&state.Snapshot{Revision: revision, Stale: stale, Queue: []*state.Candidate{{Address: leader}}})
			changed <- struct{}{}
			synctest.Wait()
		}
		last := func(n int, revision int64, stale bool) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, shown, n)
			require.Equal(t, revision, shown[n-1].Revision)
			require.Equal(t, stale, shown[n-1].Stale)
		}
		next(1, "a:1", false)
		last(1, 1, false)
		next(1, "a:1", true)
		next(2, "b:1", false)
		last(2, 2, false)
		next(2, "b:1", true)
		next(2, "b:1", false)
		last(2, 2, false)

		next(2, "b:1", true)
		<-time.After(staleAfter - 1) // of the bubble: no time passes
		synctest.Wait()
		last(2, 2, false)
		<-time.After(1) // of the bubble: no time passes
		synctest.Wait()
		last(3, 2, true)
		next(2, "b:1", false)
		last(4, 2, false)
		next(2, "b:1", true)
		next(2, "b:1", false)
		<-time.After(2 * staleAfter) // of the bubble: no time passes
		synctest.Wait()
		last(4, 2, false)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestWatchEndsWhenNobodyReads(t *testing.T) {
	t.Parallel()
	gone := errors.New("broken pipe")
	err := openOperator(t, clustertest.New(t, 0)).Watch(testContext(t), patience, func(View) error { return gone })
	require.ErrorIs(t, err, gone)
}

func TestChangeIsOneLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	v := View{LeaderID: "a:1", Token: 3, Term: 3, Mode: "election", Member: true, Queue: []string{"a:1", "b:1"},
		Nodes: []string{"a:1"}, ClusterSize: 1}
	var out strings.Builder
	require.NoError(t, PrintChange(&out, at, v, false))
	require.Equal(t, "03:04:05.006 leader=a:1 token=3 mode=election queue=a:1,b:1 nodes=a:1\n", out.String())
	out.Reset()
	require.NoError(t, PrintChange(&out, at, v, true))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &body))
	require.Equal(t, "2026-01-02T03:04:05.006Z", body["time"])
	require.Equal(t, "a:1", body["leader_id"])
	require.Equal(t, []any{"a:1", "b:1"}, body["queue"])
}

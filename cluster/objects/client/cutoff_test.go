package client_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

var (
	cutOffTTL = flag.Int("cutoff.ttl", 0, "TTL in TestRoutesOfANodeThatIsCutOff, in seconds; 0 is a short one, and 10 "+
		"that of the full run")
	cutOffSlack = flag.Duration("cutoff.slack", 4*time.Second, "for how much longer than a TTL a call may wait there; "+
		"1s in the full run")
)

// The node that owns a client's objects and reports its routes loses etcd. It reports that, and the client asks
// another node. Its calls succeed there one TTL after the loss, without waiting for their deadlines.
func TestRoutesOfANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	ttl := *cutOffTTL
	if ttl == 0 {
		ttl = int(pace.TTL(2*time.Second) / time.Second)
	}
	nodes, w := objectNodes(t, 3, clustertest.WithTTL(ttl))
	begun := make(chan struct{}, 10)
	w.SetAction("wait", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	log := &logtest.Buffer{}
	cut := nodes.Node(0)
	c := dialWithTiming(t, client.Config{Addresses: []string{cut.Address()}, Logger: log.Logger()})
	conn, err := grpc.NewClient(cut.Address(), plain)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	outside := probepb.NewProbeClient(conn)
	keys := []string{ownedBy(t, cut, "a"), ownedBy(t, cut, "b"), ownedBy(t, cut, "c"), ownedBy(t, cut, "d")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var longest, again time.Duration
	outcomes := map[string]int{}
	var wg sync.WaitGroup
	beating, plainly := watchRoutes(t, conn, int64(100*time.Millisecond)), watchRoutes(t, conn, 0)
	running := make(chan error, 1)
	runs := probepb.NewProbeClient(c.At(ownedBy(t, cut, "running")))
	go func() { // this method runs until its node loses its session
		_, err := runs.Do(ctx, &probepb.DoRequest{What: "wait"})
		running <- err
	}()
	<-begun
	lost := time.Now()
	cut.Faults().CutOff()
	var refused error
	var heldOutside time.Duration
	// The cut-off node answers calls from outside until it knows that it cannot. A call that runs at that
	// moment may have run; later calls are not started.
	wg.Go(func() {
		for refused == nil || objects.ReasonOf(refused) == objects.ReasonMayHaveStarted {
			began := time.Now()
			_, refused = outside.Add(at(ctx, keys[0]), &probepb.AddRequest{})
			heldOutside = max(heldOutside, time.Since(began))
		}
	})
	for _, key := range keys {
		wg.Go(func() {
			for pause := time.NewTicker(10 * time.Millisecond); ; <-pause.C {
				began := time.Now()
				sum, err := probepb.NewProbeClient(c.At(key)).Add(ctx, &probepb.AddRequest{Amount: 1})
				mu.Lock()
				longest = max(longest, time.Since(began))
				outcome := "OK"
				if err != nil {
					outcome = objects.ReasonOf(err) + " " + err.Error()
				}
				outcomes[outcome]++
				mu.Unlock()
				if ctx.Err() != nil || err == nil && sum.GetNode() != cut.Address() {
					mu.Lock()
					again = max(again, time.Since(lost))
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	end := <-running
	t.Logf("TTL %d s: calls succeed again after %v; the longest took %v; %v; a method that ran: %v", ttl, again, longest,
		outcomes, end)
	t.Log(log.String())
	limit := time.Duration(ttl)*time.Second + *cutOffSlack
	require.Less(t, again, limit)
	require.Less(t, longest, limit)
	require.Equal(t, 1, log.Count("the node that reported the routes is lost; asking others: address="+cut.Address()))
	require.Error(t, end)
	require.False(t, objects.NotStarted(end), "%v", end)

	t.Logf("a call from outside took %v there: %v", heldOutside, refused)
	require.True(t, objects.NotStarted(refused), "%v", refused)
	require.Less(t, heldOutside, limit)

	// Other programs that watch the routes there are notified, too. They get heartbeats only if they ask for
	// them.
	first, beats, err := beating.end()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "no answer from etcd")
	require.EqualValues(t, 500*time.Millisecond, first.GetHeartbeat(), "not as often as it likes")
	require.Len(t, first.GetNodes(), 3)
	require.Positive(t, beats)
	first, beats, err = plainly.end()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.Zero(t, first.GetHeartbeat())
	require.Zero(t, beats)
	_, _, err = watchRoutes(t, conn, 0).end()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)

	// Calls from outside are refused there while the node has no current view, and accepted again afterwards.
	_, err = outside.Add(at(ctx, keys[0]), &probepb.AddRequest{})
	require.True(t, objects.NotStarted(err), "%v", err)
	require.ErrorContains(t, err, "no answer from etcd")
	stream, err := outside.Chat(at(ctx, keys[0]))
	if err == nil {
		_, err = stream.Recv()
	}
	require.True(t, objects.NotStarted(err), "%v", err)
	cut.Faults().Reconnect()
	require.Eventually(t, func() bool {
		_, err := outside.Add(at(ctx, keys[0]), &probepb.AddRequest{})
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
}

// at adds the object's key to ctx, for calls from outside.
func at(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, key)
}

// routesWatch is a stream of routes, as seen by another program.
type routesWatch struct {
	t      *testing.T
	stream objectspb.Objects_WatchRoutesClient
}

func watchRoutes(t *testing.T, conn *grpc.ClientConn, heartbeat int64) routesWatch {
	t.Helper()
	stream, err := objectspb.NewObjectsClient(conn).WatchRoutes(patient(t),
		&objectspb.WatchRoutesRequest{Heartbeat: heartbeat})
	require.NoError(t, err)
	return routesWatch{t, stream}
}

// end reads until the stream ends. It returns the first routes, the number of heartbeats, and the reason of the
// end.
func (w routesWatch) end() (first *objectspb.WatchRoutesResponse, beats int, err error) {
	for {
		m, err := w.stream.Recv()
		switch {
		case err != nil:
			return first, beats, err
		case m.GetUnchanged():
			require.Empty(w.t, m.GetOwners())
			beats++
		case first == nil:
			first = m
		}
	}
}

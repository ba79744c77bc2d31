package peer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// endingAt ends the context of an opening at an event of its stream.
type endingAt struct {
	cancel context.CancelFunc
	at     func(*endingAt, stats.RPCStats) bool
	sent   atomic.Int32 // messages
}

func (*endingAt) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*endingAt) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*endingAt) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *endingAt) HandleRPC(_ context.Context, s stats.RPCStats) {
	if e.at(e, s) {
		e.cancel()
	}
}

// onHello reports whether the node's first message has arrived.
func onHello(_ *endingAt, s stats.RPCStats) bool {
	_, is := s.(*stats.InPayload)
	return is
}

// onProof reports whether the proof has been sent, which is the watcher's second message.
func onProof(e *endingAt, s stats.RPCStats) bool {
	_, is := s.(*stats.OutPayload)
	return is && e.sent.Add(1) == 2
}

// If the time for opening a watch ends before the proof was sent, the node arms no such watcher. After that the watch
// is open: otherwise the node would count on a watcher that does not know of it.
func TestTimeForOpeningEnds(t *testing.T) {
	t.Parallel()
	r := newRecorder(heartbeat.SendEvery)
	n, member := armedNode(t, r)
	open := func(at func(*endingAt, stats.RPCStats) bool) (*Watch, error) {
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		return member.OpenWatch(ctx, n.AdvertiseAddress(), n.InstanceID(), acknowledgeAll,
			grpc.WithStatsHandler(&endingAt{cancel: cancel, at: at}))
	}
	_, err := open(onHello)
	requireOnly(t, err, ErrNoAnswer)
	w, err := open(onProof)
	require.NoError(t, err)
	r.requireAcknowledged(t, 2, 1)
	require.True(t, w.Close(patient(t)))
	r.requireEnd(t, n, 2)
	require.Zero(t, r.beats(1))
	require.False(t, lost(n))
}

// A process that is not the wanted one never learns of the watcher.
func TestOtherInstanceIsNotWatched(t *testing.T) {
	t.Parallel()
	r := newRecorder(heartbeat.SendEvery)
	n, member := armedNode(t, r)
	_, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "i", acknowledgeAll)
	requireOnly(t, err, ErrOtherInstance)
	r.requireEnd(t, n)
	require.Zero(t, r.beats(1))
	require.False(t, lost(n))
}

// Once a newer stream of a process arms it, an older one never does again, whose end the node may learn late.
func TestOlderStreamArmsNoMore(t *testing.T) {
	t.Parallel()
	r := newRecorder(time.Millisecond)
	n, member := armedNode(t, r)
	old := watchByHand(t, n, member, &nodepb.WatchRequest{Heartbeats: true, Acknowledges: true})
	require.Eventually(t, func() bool { return r.beats(1) > 1 }, time.Minute, time.Millisecond)
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", acknowledgeAll)
	require.NoError(t, err)
	r.requireAcknowledged(t, 2, 1)
	before := r.beats(1)
	r.requireAcknowledged(t, 2, 20)
	require.True(t, w.Close(patient(t)))
	require.NoError(t, old.Send(&nodepb.WatchRequest{Acknowledged: 1}))
	r.requireAcknowledged(t, 1, 1)
	empty := false
	for !empty { // it goes on with heartbeats that arm no watcher
		m, err := old.Recv()
		require.NoError(t, err)
		empty = m.GetBeat() == nil
	}
	require.Equal(t, before, r.beats(1))
	require.NoError(t, old.CloseSend())
	for err == nil {
		_, err = old.Recv()
	}
	r.requireEnd(t, n, 1, 2)
}

package peer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/goverse/goverse/internal/crash/heartbeat"
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
	member := local(t)
	n, r := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()}), newRecorder(heartbeat.SendEvery)
	n.SetArmer(r)
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
	member := local(t)
	n, r := watchedBy(t, map[string][]byte{member.InstanceID(): member.WatchKey()}), newRecorder(heartbeat.SendEvery)
	n.SetArmer(r)
	_, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "i", acknowledgeAll)
	requireOnly(t, err, ErrOtherInstance)
	r.requireEnd(t, n)
	require.Zero(t, r.beats(1))
	require.False(t, lost(n))
}

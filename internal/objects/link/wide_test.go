package link

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// The first few streams of this process's own have a large window. Further ones, and forwarded ones, do not.
func TestFirstStreamsHaveALargeWindow(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	forwarded, err := p.Conn(s.address)
	require.NoError(t, err)
	peer := p.peers[s.address]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func() (*grpc.ClientConn, grpc.ServerStreamingClient[objectspb.WatchRoutesResponse]) {
		conn, err := p.OwnConn(s.address)
		require.NoError(t, err)
		stream, err := objectspb.NewObjectsClient(conn).WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
		require.NoError(t, err)
		return conn, stream
	}
	var streams []grpc.ServerStreamingClient[objectspb.WatchRoutesResponse]
	for range wideStreams {
		conn, stream := open()
		require.True(t, conn == peer.wideConn)
		streams = append(streams, stream)
	}
	conn, stream := open()
	require.True(t, conn == forwarded, "more do not fit")
	require.EqualValues(t, wideStreams, peer.wideOpen.Load())
	require.EqualValues(t, wideStreams+1, peer.streams.Load(), "all of them keep the peer in use")
	cancel()
	for _, stream := range append(streams, stream) {
		_, err := stream.Recv()
		require.Equal(t, codes.Canceled, status.Code(err))
	}
	require.Eventually(t, func() bool { return peer.wideOpen.Load() == 0 && peer.streams.Load() == 0 }, time.Minute,
		time.Millisecond)
	next, err := p.OwnConn(s.address)
	require.NoError(t, err)
	require.True(t, next == peer.wideConn, "there is room again")
	p.Drop(s.address)
	_, err = objectspb.NewObjectsClient(next).WatchRoutes(t.Context(), &objectspb.WatchRoutesRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "nothing is sent on a connection that was dropped: %v", err)
	require.Zero(t, peer.wideOpen.Load())
}

// Streams may find room on the wide connection at the same time and be opened later, such as when a shard moves. Those
// beyond the limit go to the other connection.
func TestFewStreamsHaveALargeWindowWhenManyOpenTogether(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	var conns []*grpc.ClientConn
	for range 3 * wideStreams {
		conn, err := p.OwnConn(s.address)
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	peer := p.peers[s.address]
	var streams []grpc.ServerStreamingClient[objectspb.WatchRoutesResponse]
	for _, conn := range conns {
		stream, err := objectspb.NewObjectsClient(conn).WatchRoutes(patient(t), &objectspb.WatchRoutesRequest{})
		require.NoError(t, err)
		streams = append(streams, stream)
	}
	require.EqualValues(t, wideStreams, peer.wideOpen.Load(), "streams with a large window")
	require.EqualValues(t, len(streams), peer.streams.Load(), "each is counted once")
	var dropped sync.WaitGroup
	defer dropped.Wait()
	dropped.Go(func() { p.Drop(s.address) })
	for i, stream := range slices.Backward(streams) {
		_, err := stream.Recv()
		// Unavailable is the end of a stream whose headers were not sent yet.
		require.Contains(t, []codes.Code{codes.Canceled, codes.Unavailable}, status.Code(err), err)
		require.Equal(t, connectivity.Shutdown, conns[i].GetState(), "shows why the stream has ended")
	}
	require.Eventually(t, func() bool { return peer.wideOpen.Load() == 0 && peer.streams.Load() == 0 }, patience,
		time.Millisecond)
}

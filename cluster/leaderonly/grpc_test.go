package leaderonly

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

// probe answers with the token of its term.
type probe struct {
	probepb.UnimplementedProbeServer
}

func (probe) Echo(ctx context.Context, _ *probepb.Blob) (*probepb.Blob, error) {
	return &probepb.Blob{Data: []byte(strconv.FormatInt(TokenFrom(ctx), 10))}, nil
}

func (probe) Add(context.Context, *probepb.AddRequest) (*probepb.AddResponse, error) {
	return &probepb.AddResponse{}, nil
}

func (probe) Download(_ *probepb.DownloadRequest, s grpc.ServerStreamingServer[probepb.Blob]) error {
	return s.Send(&probepb.Blob{Data: []byte(strconv.FormatInt(TokenFrom(s.Context()), 10))})
}

func serveProbe(t *testing.T, l Leadership, opts GRPCOptions) probepb.ProbeClient {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(UnaryServerInterceptor(l, opts)),
		grpc.StreamInterceptor(StreamServerInterceptor(l, opts)))
	probepb.RegisterProbeServer(server, probe{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	return probepb.NewProbeClient(conn)
}

func requireCallRefused(t *testing.T, err error, trailer metadata.MD, reason string) {
	t.Helper()
	require.Equal(t, codes.Unavailable, status.Code(err), err)
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	require.NotNil(t, info)
	require.Equal(t, objects.Domain, info.GetDomain())
	require.Equal(t, reason, info.GetReason())
	require.Equal(t, time.Second, retry.GetRetryDelay().AsDuration())
	if reason == ReasonNotLeader {
		require.Equal(t, "b:1", info.GetMetadata()["leader"])
		require.Equal(t, []string{"b:1"}, trailer.Get(LeaderTrailer))
		require.Equal(t, []string{there}, trailer.Get(LeaderURLTrailer))
	}
	require.NotEmpty(t, trailer.Get(RefusedTrailer))
}

func TestCalls(t *testing.T) {
	f := newFake(follows(there))
	client := serveProbe(t, f, GRPCOptions{Wait: 20 * time.Millisecond})
	download := func() (string, metadata.MD, error) {
		s, err := client.Download(t.Context(), &probepb.DownloadRequest{})
		require.NoError(t, err)
		b, err := s.Recv()
		if err == nil {
			_, end := s.Recv()
			require.True(t, errors.Is(end, io.EOF))
		}
		return string(b.GetData()), s.Trailer(), err
	}
	for leader, reason := range map[Leader]string{follows(there): ReasonNotLeader, {}: ReasonNoLeader,
		{Own: true}: ReasonHandingOver} {
		f.become(leader)
		var trailer metadata.MD
		_, err := client.Echo(t.Context(), &probepb.Blob{}, grpc.Trailer(&trailer))
		requireCallRefused(t, err, trailer, reason)
		_, trailer, err = download()
		requireCallRefused(t, err, trailer, reason)
	}
	f.become(leads())
	b, err := client.Echo(t.Context(), &probepb.Blob{})
	require.NoError(t, err)
	require.Equal(t, "7", string(b.GetData()))
	token, _, err := download()
	require.NoError(t, err)
	require.Equal(t, "7", token)
}

func TestMethodsOfAnyNode(t *testing.T) {
	client := serveProbe(t, newFake(follows(there)), GRPCOptions{
		Applies: FullMethods("/goverse.testkit.probe.Probe/Echo")})
	_, err := client.Add(t.Context(), &probepb.AddRequest{})
	require.NoError(t, err)
	_, err = client.Echo(t.Context(), &probepb.Blob{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}

// A call waits for the next leader, and a repeated call for the leader after the present one.
func TestCallWaits(t *testing.T) {
	f := newFake(Leader{})
	client := serveProbe(t, f, GRPCOptions{Wait: 20 * time.Second})
	for before, metadataOf := range map[Leader]metadata.MD{{}: nil, follows(there): metadata.Pairs(RetryMetadata, "1")} {
		f.become(before)
		ended := make(chan error, 1)
		go func() {
			_, err := client.Echo(metadata.NewOutgoingContext(context.Background(), metadataOf), &probepb.Blob{})
			ended <- err
		}()
		if before.Name == "" {
			require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.waiting > 0 }, time.Minute,
				time.Millisecond)
			f.become(leads())
			require.NoError(t, <-ended)
		} else {
			require.Equal(t, codes.Unavailable, status.Code(<-ended), "it is not next, so it waits for a moment only")
		}
	}
}

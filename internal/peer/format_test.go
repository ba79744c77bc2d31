package peer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/goverse/goverse/internal/state/format/formatheader"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// A node refuses calls and streams in a newer format, and serves those of callers that state none.
func TestCallsInANewerFormatAreRefused(t *testing.T) {
	n := started(t)
	client := nodepb.NewNodeClient(dial(t, n))
	newer := metadata.AppendToOutgoingContext(patient(t), formatheader.Name, "2")
	_, err := client.Identify(newer, &nodepb.IdentifyRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "the call has format 2, and this process")
	require.ErrorContains(t, err, "reads format 1: use a release of Goverse that reads format 2")
	watch, err := client.Watch(newer)
	require.NoError(t, err)
	_, err = watch.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err))

	bad := metadata.AppendToOutgoingContext(patient(t), formatheader.Name, "new")
	_, err = client.Identify(bad, &nodepb.IdentifyRequest{})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = client.Identify(patient(t), &nodepb.IdentifyRequest{})
	require.NoError(t, err)
}

// Calls and watches of other nodes state their format.
func TestCallsStateTheFormat(t *testing.T) {
	stated := make(chan []string, 2)
	n := local(t, grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		stated <- info.Header.Get(formatheader.Name)
		return ctx, nil
	}))
	require.NoError(t, n.Start())
	_, err := Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, <-stated)
	watch, err := local(t).OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
	require.NoError(t, err)
	watch.Close(patient(t))
	require.Equal(t, []string{"1"}, <-stated)
}

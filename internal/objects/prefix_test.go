package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/test/probepb"
)

// A node refuses streams that are meant for another cluster, as a link does.
func TestStreamForAnotherCluster(t *testing.T) {
	c, w := objectNodes(t, 1)
	conn, err := grpc.NewClient(c.Node(0).Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx := metadata.AppendToOutgoingContext(patient(t), objects.KeyHeader, "k", route.ForwardedHeader, "1",
		"goverse-prefix-bin", "/another")
	stream, err := probepb.NewProbeClient(conn).Chat(ctx)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err), err)
	require.ErrorContains(t, err, `"/another"`)
	require.Empty(t, w.Events())
}

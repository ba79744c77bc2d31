package link

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/goverse/goverse/internal/state/format/formatheader"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// The links of a pool, and the calls and streams on its connections, state their format.
func TestConnectionsStateTheFormat(t *testing.T) {
	begun := make(chan *tap.Info, 1)
	s := local(t, echo, grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		begun <- info
		return ctx, nil
	}))
	requireFormat := func(method string) {
		t.Helper()
		info := <-begun
		require.Equal(t, method, info.FullMethodName)
		require.Equal(t, []string{"1"}, info.Header.Get(formatheader.Name))
	}
	p := pool(t, Config{})
	_, err := p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
	requireFormat(objectspb.Objects_Link_FullMethodName)
	conn, err := p.Conn(s.address)
	require.NoError(t, err)
	_, err = objectspb.NewObjectsClient(conn).Describe(patient(t), &objectspb.DescribeRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	requireFormat(objectspb.Objects_Describe_FullMethodName)
	own, err := p.OwnConn(s.address)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	_, err = objectspb.NewObjectsClient(own).WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
	require.NoError(t, err)
	requireFormat(objectspb.Objects_WatchRoutes_FullMethodName)
}

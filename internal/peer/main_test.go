package peer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local returns a node on a free port, which is closed at the end of the test.
func local(t *testing.T, opts ...grpc.ServerOption) *Node {
	t.Helper()
	n, err := NewNode(Config{AdvertiseAddress: "127.0.0.1:0", ServerOptions: opts})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// started returns a serving node.
func started(t *testing.T) *Node {
	t.Helper()
	n := local(t)
	require.NoError(t, n.Start())
	return n
}

// patient returns a context that ends only if a test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dial returns a client connection to a node.
func dial(t *testing.T, n *Node) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(n.AdvertiseAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

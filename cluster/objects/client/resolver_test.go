package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/cluster/objects/client"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// connect returns a connection to a target that the client resolves.
func connect(t *testing.T, c *client.Client, target string, creds grpc.DialOption) nodepb.NodeClient {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(c.Resolver()), creds)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return nodepb.NewNodeClient(conn)
}

var plain = grpc.WithTransportCredentials(insecure.NewCredentials())

// awaitAnswer waits until the node at an address answers.
func awaitAnswer(t *testing.T, ctx context.Context, conn nodepb.NodeClient, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply, err := conn.Identify(ctx, &nodepb.IdentifyRequest{}, grpc.WaitForReady(true))
		return err == nil && reply.GetAdvertiseAddress() == address
	}, 20*time.Second, time.Millisecond)
}

func TestTheLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	nodes, _ := objectNodes(t, 2)
	c := dialWithTiming(t, client.Config{Addresses: []string{nodes.Node(1).Address()}})
	conn := connect(t, c, "goverse:///leader", plain)
	awaitAnswer(t, patient(t), conn, nodes.WaitLeader().Address())
	for range 3 {
		former, next := nodes.WaitLeader(), nodes.Node(0)
		if next == former {
			next = nodes.Node(1)
		}
		nodes.WaitQueue(former.Address(), next.Address())
		require.NoError(t, former.Cluster().Resign(patient(t)))
		nodes.WaitLeaderIs(next.Address())
		awaitAnswer(t, patient(t), conn, next.Address())
	}

	for _, target := range []string{"goverse:///nobody", "goverse://host/leader", "goverse:///"} {
		_, err := connect(t, c, target, plain).Identify(patient(t), &nodepb.IdentifyRequest{})
		require.ErrorContains(t, err, "use goverse:///leader")
	}
	c.Close()
	_, err := connect(t, c, "goverse:///leader", plain).Identify(patient(t), &nodepb.IdentifyRequest{})
	require.ErrorContains(t, err, client.ErrClosed.Error())
}

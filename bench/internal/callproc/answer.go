package callproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
)

const stopTimeout = 10 * time.Second

// StartGRPC starts an ordinary gRPC server. The process's Said is its address.
func StartGRPC() (*reexec.Process, error) { return reexec.Start(answerGRPCArg) }

func answerGRPC(ctx context.Context, _ []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, ended := grpc.NewServer(), make(chan error, 1)
	probepb.RegisterProbeServer(server, &Echo{})
	go func() { ended <- server.Serve(listener) }()
	reexec.Ready(listener.Addr().String())
	<-ctx.Done()
	server.Stop()
	return <-ended
}

// StartObjects starts a node that hosts objects, the first of a cluster of two; the second is a caller. The
// process's Said is its address.
func StartObjects(etcd string) (*reexec.Process, error) { return reexec.Start(answerObjectsArg, etcd) }

func answerObjects(ctx context.Context, args []string) error {
	c, err := StartNode(ctx, two(args[0]))
	if err != nil {
		return err
	}
	reexec.Ready(c.Status().NodeID)
	<-ctx.Done()
	return StopNode(c)
}

// two returns the configuration of two nodes. The first map includes both, so no shard moves after it.
func two(etcd string) cluster.Config {
	return cluster.Config{EtcdAddress: etcd, Sharding: cluster.Sharding{MinMembers: 2, Window: time.Millisecond}}
}

// StartNode starts a node that hosts objects in this process. Each object is an [Echo].
func StartNode(ctx context.Context, cfg cluster.Config) (*cluster.Cluster, error) {
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	c, err := cluster.NewClusterWithNode(cfg, n)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	objects.Register(c, probepb.RegisterProbeServer, func(context.Context, *objects.Object) (probepb.ProbeServer, error) {
		return &Echo{node: n.AdvertiseAddress()}, nil
	})
	if err := c.Start(ctx); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	return c, nil
}

// StopNode stops the node.
func StopNode(c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return c.Stop(ctx)
}

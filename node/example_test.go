package node_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goverse/goverse/node"
)

// A node is the gRPC server of one process, with an identity. A cluster starts and stops its node; a program
// registers its own services before.
func Example() {
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	_ = func() { // your service, generated from its .proto
		grpc_health_v1.RegisterHealthServer(n.Server(), health.NewServer())
	}
	if err := n.Start(); err != nil { // cluster.Cluster.Start does it
		log.Fatal(err)
	}
	fmt.Println("stopped:", n.Stop(context.Background()))
	// Output: stopped: <nil>
}

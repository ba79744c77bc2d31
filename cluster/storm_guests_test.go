package cluster_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// guest is a connection from outside to a node. Calling it closes the connection once the node is down.
type guest func()

// guestKinds opens guests of each kind; nil if the connection was not opened.
var guestKinds = map[string]func(n *stormNode) guest{
	"grpc client": func(n *stormNode) guest { return n.grpcGuest(checkHealth) },
	"grpc watch":  func(n *stormNode) guest { return n.grpcGuest(watchHealth) },
	"node watch":  func(n *stormNode) guest { return n.grpcGuest(watchNode) },
	"silent":      func(n *stormNode) guest { return rawGuest(n.cluster.Node().AdvertiseAddress(), "") },
	"half greeting": func(n *stormNode) guest {
		return rawGuest(
			n.cluster.Node().AdvertiseAddress(), "PRI * HTTP/2.0\r\n")
	},
	"half TLS": func(n *stormNode) guest {
		return rawGuest(n.cluster.Node().AdvertiseAddress(), "\x16\x03\x01\x02\x00\x01\x00")
	},
	"greeting only": func(n *stormNode) guest {
		return rawGuest(n.cluster.Node().AdvertiseAddress(),
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	},
	"http silent": func(n *stormNode) guest { return rawGuest(n.http.Address(), "") },
	"http half":   func(n *stormNode) guest { return rawGuest(n.http.Address(), "GET /livez HTTP/1.1\r\n") },
	"http idle": func(n *stormNode) guest {
		client := &http.Client{Transport: &http.Transport{}}
		if resp, err := client.Get("http://" + n.http.Address() + "/livez"); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return client.CloseIdleConnections
	},
}

// rawGuest sends something and then nothing more; it does not read either.
func rawGuest(address, says string) guest {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil
	}
	_, _ = io.WriteString(conn, says)
	return func() { _ = conn.Close() }
}

// grpcGuest is a gRPC client that makes a call and stays connected.
func (n *stormNode) grpcGuest(call func(ctx context.Context, conn *grpc.ClientConn)) guest {
	conn, err := grpc.NewClient("passthrough:///"+n.cluster.Node().AdvertiseAddress(),
		grpc.WithTransportCredentials(n.w.certs.client()))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { call(ctx, conn) })
	return func() {
		cancel()
		wg.Wait()
		_ = conn.Close()
	}
}

// checkHealth calls the node once it serves.
func checkHealth(ctx context.Context, conn *grpc.ClientConn) {
	_, _ = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
}

// watchHealth calls the node once it serves, and watches its health.
func watchHealth(ctx context.Context, conn *grpc.ClientConn) {
	checkHealth(ctx, conn)
	stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	for err == nil {
		_, err = stream.Recv()
	}
}

// watchNode watches the node as a process that is not a member.
func watchNode(ctx context.Context, conn *grpc.ClientConn) {
	stream, err := nodepb.NewNodeClient(conn).Watch(ctx)
	for range 2 { // a greeting, and the answer to the challenge
		if err == nil {
			err = stream.Send(&nodepb.WatchRequest{InstanceId: "guest", Heartbeats: true})
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
}

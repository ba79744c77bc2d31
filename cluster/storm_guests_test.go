package cluster_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goverse/goverse/internal/peer"
)

// guest is a connection from outside to a node. Calling it closes the connection once the node is down.
type guest func()

// guestKinds opens guests of each kind; nil if the connection was not opened.
var guestKinds = map[string]func(n *stormNode) guest{
	"grpc client": func(n *stormNode) guest { return n.grpcGuest(false) },
	"grpc watch":  func(n *stormNode) guest { return n.grpcGuest(true) },
	"node watch": func(n *stormNode) guest {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			w, err := peer.OpenWatch(ctx, n.cluster.Node().AdvertiseAddress(), "guest",
				grpc.WithTransportCredentials(n.w.certs.client()))
			if err == nil {
				_ = w.Wait(ctx)
				w.Close(ctx)
			}
		})
		return func() {
			cancel()
			wg.Wait()
		}
	},
	"silent": func(n *stormNode) guest { return rawGuest(n.cluster.Node().AdvertiseAddress(), "") },
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

// grpcGuest is a gRPC client that stays connected, and calls once the node serves.
func (n *stormNode) grpcGuest(watch bool) guest {
	conn, err := grpc.NewClient("passthrough:///"+n.cluster.Node().AdvertiseAddress(),
		grpc.WithTransportCredentials(n.w.certs.client()))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		client := healthpb.NewHealthClient(conn)
		_, _ = client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if !watch {
			return
		}
		stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		for err == nil {
			_, err = stream.Recv()
		}
	})
	return func() {
		cancel()
		wg.Wait()
		_ = conn.Close()
	}
}

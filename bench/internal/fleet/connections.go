package fleet

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

// The first OwnConns nodes each have a connection to etcd of their own; the others share SharedConns. A gRPC
// connection carries any number of watch streams, and each node's mirror opens a stream of its own on it.
const (
	OwnConns    = 100
	SharedConns = 100
)

// Connections returns the number of connections of n nodes.
func Connections(n int) int { return min(n, OwnConns+SharedConns) }

// connection returns the index of node i's connection among count.
func connection(i, count int) int {
	if i < OwnConns {
		return i
	}
	return OwnConns + (i-OwnConns)%(count-OwnConns)
}

// Connect returns n connected clients, with the same settings as a cluster's own client.
func Connect(ctx context.Context, endpoint string, n int) ([]*clientv3.Client, error) {
	var clients []*clientv3.Client
	for range n {
		c, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: endpoint})
		if err == nil {
			clients = append(clients, c)
			_, err = c.Get(ctx, "warm")
		}
		if err != nil {
			Disconnect(clients)
			return nil, fmt.Errorf("connect to etcd: %w", err)
		}
	}
	return clients, nil
}

// Disconnect closes clients.
func Disconnect(clients []*clientv3.Client) {
	for _, c := range clients {
		_ = c.Close() // the error reports only the cancelled context
	}
}

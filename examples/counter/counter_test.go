package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// atMost limits the lines of the counters' code.
const atMost = 25

// The counters as objects and by hand behave the same. The test logs the number of lines of each.
func TestCountersAndTheSameByHand(t *testing.T) {
	for name, file := range map[string]string{"objects": "counter.go", "by hand": "byhand_test.go"} {
		t.Run(name, func(t *testing.T) {
			var made []*byHand
			var registers []func(*cluster.Cluster)
			c := clustertest.New(t, 3, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
				cfg.Sharding.Shards, cfg.Sharding.Window = 64, 20*time.Millisecond
				cfg.Sharding.MinMembers = 3
				if name == "objects" {
					registers = append(registers, register)
					return
				}
				b, register := byHandOn(&cfg.Sharding)
				made, registers = append(made, b), append(registers, register)
			}), clustertest.WithSetup(func(i int, c *cluster.Cluster) { registers[i](c) }))
			t.Cleanup(func() {
				for _, b := range made {
					require.NoError(t, b.close())
				}
			})
			var clients []counterpb.CounterClient
			for _, n := range c.Nodes() {
				clients = append(clients, dial(t, n.Address()))
			}
			const keys = 30
			for key := range keys {
				for i, client := range clients {
					reply, err := client.Add(at(t, key), &counterpb.AddRequest{Amount: 5})
					require.NoError(t, err)
					require.EqualValues(t, 5*(i+1), reply.GetSum())
				}
			}
			_, err := clients[0].Get(etcdtest.Context(t), &counterpb.GetRequest{})
			require.Equal(t, codes.InvalidArgument, status.Code(err), "there is no key")

			stopped := c.Node(2).Address()
			require.NoError(t, c.Node(2).Cluster().Stop(etcdtest.Context(t)))
			// By hand, a call goes to the node named by the caller's node, which learns of the stop a moment
			// later.
			require.Eventually(t, func() bool { return !owns(c.Node(0), stopped) && !owns(c.Node(1), stopped) },
				10*time.Second, time.Millisecond, "nodes still name the one that has stopped")
			kept := 0
			for key := range keys {
				reply, err := clients[0].Get(at(t, key), &counterpb.GetRequest{})
				require.NoError(t, err)
				again, err := clients[1].Get(at(t, key), &counterpb.GetRequest{})
				require.NoError(t, err)
				require.Equal(t, reply.GetSum(), again.GetSum())
				if reply.GetSum() != 0 {
					require.EqualValues(t, 15, reply.GetSum())
					kept++
				}
			}
			require.NotZero(t, kept)
			require.Less(t, kept, keys, "those of the node that stopped begin again")

			all, code := lines(t, file)
			t.Logf("%s: %d lines, of which %d are code", name, all, code)
			if name == "objects" {
				require.LessOrEqual(t, all, atMost)
			}
		})
	}
}

// owns reports whether, according to n, the node at address owns a shard, or a shard has no owner.
func owns(n *clustertest.Node, address string) bool {
	shards := n.Cluster().Shards()
	for shard := range shards.Count() {
		if owner, ok := shards.OwnerOf(shard); !ok || owner.Address == address {
			return true
		}
	}
	return false
}

// lines counts the lines between a file's marks, and those among them that are neither empty nor comments.
func lines(t *testing.T, file string) (all, code int) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, marked, begins := strings.Cut(string(text), "\n// From here to the end ")
	marked, _, ends := strings.Cut(marked, "\n// The end.\n")
	require.True(t, begins && ends, "%s has its marks", file)
	_, marked, _ = strings.Cut(marked, "\n")
	for line := range strings.Lines(strings.TrimSpace(marked)) {
		all++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			code++
		}
	}
	return all, code
}

// dial returns a client that calls one node, for any object.
func dial(t *testing.T, address string) counterpb.CounterClient {
	return counterpb.NewCounterClient(connect(t, address))
}

func connect(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// at returns the context of a call to a counter.
func at(t *testing.T, key int) context.Context {
	return metadata.AppendToOutgoingContext(etcdtest.Context(t), "goverse-key", fmt.Sprint("counter", key))
}

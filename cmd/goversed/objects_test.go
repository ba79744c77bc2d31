package main

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

func TestObjectsCommand(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window = 64, 20*time.Millisecond
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	world := &probepb.World{}
	n := c.NewNode()
	world.Register(n.Cluster(), n.Address())
	require.NoError(t, n.Start(ctx))
	const binary = "-\x00\xff, alice"
	for _, key := range []string{"alice", binary} {
		_, err := probepb.NewProbeClient(n.Cluster().Objects().At(key)).Add(ctx, &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
	}
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, append([]string{"objects"}, args...)...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	const service = "goverse.testkit.probe.Probe"
	text := ask()
	require.True(t, strings.HasPrefix(text, "objects   2 active\nnodes     1\n\nNODE "), text)
	require.Contains(t, text, n.Address()+"  "+service+"  2       0        2      -\n")

	owned := "shard     " + strconv.Itoa(shard.Of("alice", 64)) + "\nowner     " + n.Address() + " (alive, epoch "
	text = ask("alice")
	require.Contains(t, text, "key       alice\n"+owned)
	require.Regexp(t, `(?m)^`+n.Address()+` +`+service+` +active +\d+ +0 +0 +\S+s$`, text)
	require.Contains(t, ask(strconv.Quote(binary)), "key       "+strconv.Quote(binary)+"\n", "as it is shown")
	require.Contains(t, ask("--", "-nobody"), "none of the nodes that answered has an object with this key\n")

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	defer c.PutStrayKey(nodetest.Keys.Node(silent.Addr().String()), state.Record{}.Encode())()
	var all operator.Objects
	require.NoError(t, json.Unmarshal([]byte(ask("-o", "json", "--", binary)), &all))
	require.Len(t, all.Nodes, 2)
	require.Equal(t, n.Address(), all.Key.Owner)
	require.Equal(t, []string{"active", service}, []string{all.Key.Objects[0].State, all.Key.Objects[0].Service})
	require.Contains(t, ask("--timeout", "1s"), "nodes     2, of which 1 did not answer\n")

	requireOneLine(t, runGoversed(t, env, "objects", "--prefix", "/other"), cli.ExitFailure,
		"no node is registered under /other: check --prefix")
	requireOneLine(t, runGoversed(t, env, "objects", ""), cli.ExitUsage,
		"KEY has 0 bytes: give 1 to 1024, or leave it out")
	requireOneLine(t, runGoversed(t, env, "objects", strings.Repeat("k", objects.MaxKey+1)), cli.ExitUsage,
		"KEY has 1025 bytes")
}

// A node with mutual TLS answers no caller without a certificate.
func TestObjectsOfNodesWithTLS(t *testing.T) {
	t.Parallel()
	authority, files := certtest.NewAuthority(t), certtest.NewFiles(t)
	files.Write(t, authority.Issue(t, []string{"127.0.0.1"}))
	files.WriteCA(t, authority)
	certs, err := mtls.New(mtls.Config{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA})
	require.NoError(t, err)
	defer certs.Close()
	etcd := etcdtest.Start(t).Endpoint()
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0",
		ServerOptions: []grpc.ServerOption{certs.ServerOption()}})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd,
		DialOptions: []grpc.DialOption{certs.DialOption()}}, n)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	defer func() { require.NoError(t, c.Stop(ctx)) }()

	env := map[string]string{"GOVERSE_ETCD": etcd}
	r := runGoversed(t, env, "objects")
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "nodes     1, of which 1 did not answer\n")
	require.Contains(t, r.stdout, "no gRPC there, or other TLS settings: ")
	env["GOVERSE_NODE_CERT"], env["GOVERSE_NODE_KEY"], env["GOVERSE_NODE_CA"] = files.Cert, files.Key, files.CA
	r = runGoversed(t, env, "objects")
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "nodes     1\n")
	require.Contains(t, r.stdout, "no service is registered\n")

	requireOneLine(t, runGoversed(t, nil, "objects", "--node-cert", files.Cert), cli.ExitUsage,
		"--node-cert, --node-key and --node-ca belong together: give all three")
	requireOneLine(t, runGoversed(t, nil, "objects", "--node-cert", "/none", "--node-key", files.Key, "--node-ca",
		files.CA),
		cli.ExitUsage, "--node-cert /none: name a file that this user may read")
}

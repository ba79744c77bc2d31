//go:build unix

package integration

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/node"
)

// Processes with flags, and a program with cluster.Config, use an etcd that requires certificates on both
// sides. Clients without them get a helpful error.
func TestEtcdOverTLS(t *testing.T) {
	t.Parallel()
	certs, strangers := procs.NewCertificates(t), procs.NewCertificates(t)
	endpoint := kit.StartTLSEtcd(t, certs)
	access := func(c procs.Certificates) []string {
		return []string{"--etcd-cacert", c.CA, "--etcd-cert", c.Cert, "--etcd-key", c.Key}
	}
	first := kit.StartNode(t, procs.NodeConfig{Etcd: endpoint, Flags: access(certs)})
	first.AwaitStatus(t, patience, "leads", leads)

	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: "https://" + endpoint, EtcdPrefix: procs.Prefix,
		TLS: certs.Config(t)}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(requestContext(t)))
	require.Equal(t, first.Address, c.GetLeaderNode())
	require.NoError(t, c.Stop(requestContext(t)))

	status := kit.Goversed(t, append([]string{"leader", "--etcd", endpoint, "--prefix", procs.Prefix},
		access(certs)...)...)
	require.Equal(t, 0, status.Exit(t, patience), status.Output())
	require.Contains(t, status.Output(), first.Address)

	plain := kit.StartEtcd(t, procs.Etcd34).Endpoint
	for name, c := range map[string]struct {
		etcd  string
		flags []string
		says  string
	}{
		"no certificate":       {endpoint, []string{"--etcd-cacert", certs.CA}, "remote error: tls: "},
		"another authority's":  {endpoint, access(strangers), "certificate signed by unknown authority"},
		"TLS on one side":      {endpoint, nil, "it speaks TLS, and this side does not"},
		"TLS on the other one": {plain, access(certs), "it does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stranger := kit.Goversed(t, append([]string{"leader", "--etcd", c.etcd, "--prefix", procs.Prefix, "--timeout",
				"2s"}, c.flags...)...)
			require.Contains(t, refused(t, stranger), c.says)
		})
	}
	node := kit.StartNode(t, procs.NodeConfig{Etcd: endpoint})
	node.AwaitOutput(t, patience, "it speaks TLS, and this side does not")
	node.Signal(t, syscall.SIGTERM)
	node.Exit(t, patience)
}

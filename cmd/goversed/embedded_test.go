package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/certtest"
)

// Each mistake in the flags of the embedded etcd yields one line that names the remedy.
func TestBadEmbeddedEtcd(t *testing.T) {
	t.Parallel()
	const two = "node --etcd-name a --etcd-cluster a=http://10.0.0.1:1,b=http://10.0.0.2:1"
	for _, c := range [][2]string{
		{"node --etcd-cacert c", "--etcd-cacert only has a meaning with --etcd or --etcd-serve-cert"},
		{"node --etcd a:1 --etcd-name a", "--etcd-name configures the embedded etcd, which --etcd replaces"},
		{"node --etcd-serve-cert c", "--etcd-serve-cert and --etcd-serve-key belong together"},
		{"node --etcd-serve-ca c", "--etcd-serve-ca is given without --etcd-serve-cert"},
		{"node --etcd-peer-cert c", "--etcd-peer-cert, --etcd-peer-key and --etcd-peer-ca belong together"},
		{"node --etcd-name a", "give --etcd-cluster, too"},
		{"node --etcd-advertise 0.0.0.0:1", "--etcd-advertise 0.0.0.0:1: write the host:port under which"},
		{"node --etcd-cluster x", `--etcd-cluster: "x": write name=URL for each member, like a=http://`},
		{"node --etcd-cluster a=10.0.0.1:2380", `"a=10.0.0.1:2380": write name=URL`},
		{"node --etcd-cluster a=https://h:1", "has https://h:1, which needs certificates"},
		{"node --etcd-cluster a=http://h:1 --etcd-peer-cert c --etcd-peer-key k --etcd-peer-ca a",
			"would not be encrypted although certificates are given: write https://"},
		{"node --etcd-cluster a=http://h:1,a=http://h:2", "has the name a twice"},
		{"node --etcd-cluster a=http://h:1,b=http://h:1", "has http://h:1 for a and for b"},
		{"node --etcd-cluster a=http://h:1,b=http://h:2", "say which of --etcd-cluster this process is: a, b"},
		{"node --etcd-name c --etcd-cluster a=http://h:1", "--etcd-name c is not in --etcd-cluster: give one of a"},
		{"node --etcd-name a --etcd-cluster a=http://h:1", "--etcd-peer-listen is missing: the peer URL of a has a name"},
		{two, "--etcd-listen 127.0.0.1:2379 cannot be reached by the nodes of the other members: give this machine's " +
			"address, like 10.0.0.1:2379"},
		{two + " --etcd-listen :2379", "--etcd-advertise is missing"},
		{two + " --etcd-peer-listen x", "--etcd-peer-listen x: write host:port"},
		{"etcd foo", "the verbs here are members, replace"},
		{"etcd replace", "NAME is missing: goversed etcd members shows the names"},
		{"etcd replace c --peer h:1", "--peer h:1: write it as in --etcd-cluster"},
		{"etcd members stray", `unexpected argument "stray"`},
	} {
		t.Run(c[0], func(t *testing.T) {
			t.Parallel()
			r := runGoversed(t, nil, strings.Fields(c[0])...)
			requireOneLine(t, r, cli.ExitUsage, c[1])
			require.NotRegexp(t, `embedetcd|[A-Z][a-z]+[A-Z]`, r.stderr)
		})
	}
}

func TestEmbeddedEtcdFlags(t *testing.T) {
	t.Parallel()
	f := embeddedFlags{dataDir: "d", listen: ":2379", advertise: "host1:2379", name: "b", peerListen: ":2380",
		cluster: "a=https://host0:2380, b=https://host1:2380/",
		peer:    embedetcd.TLS{CertFile: "c", KeyFile: "k", CAFile: "a"}}
	cfg, err := f.config()
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	require.Equal(t, map[string]string{"a": "host0:2380", "b": "host1:2380"}, cfg.Peers)
}

func TestEmbeddedEtcdFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ca, files := certtest.NewAuthority(t), certtest.NewFiles(t)
	files.Write(t, ca.Issue(t, []string{"127.0.0.1"}))
	files.WriteCA(t, ca)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--etcd-serve-cert", "/none", "--etcd-serve-key", files.Key}, "--etcd-serve-cert /none: name a file"},
		{[]string{"--etcd-serve-cert", files.Cert, "--etcd-serve-key", files.CA},
			"--etcd-serve-key " + files.CA + ": name the PEM file with the private key"},
		{[]string{"--etcd-serve-cert", files.Cert, "--etcd-serve-key", files.Key, "--etcd-serve-ca", files.Key},
			"--etcd-serve-ca " + files.Key + ": it holds no PEM certificate"},
	} {
		args := append([]string{"node", "--log-level", "off", "--listen", "127.0.0.1:0", "--http", "none", "--etcd-listen",
			"127.0.0.1:0", "--data-dir", t.TempDir()}, c.args...)
		r := runGoversed(t, nil, args...)
		requireOneLine(t, r, cli.ExitFailure, c.says)
		require.NotContains(t, r.stderr, "embedetcd")
	}
}

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/certtest"
)

func TestNodeCertificates(t *testing.T) {
	t.Parallel()
	a, f := certtest.NewAuthority(t), certtest.NewFiles(t)
	f.Write(t, a.Issue(t, []string{"host1"}))
	f.WriteCA(t, a)
	const together = "--node-cert, --node-key and --node-ca belong together: give all three"
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		code int
		says string
	}{
		"a certificate alone": {nil, []string{"--node-cert", f.Cert}, cli.ExitUsage, together},
		"an authority alone":  {map[string]string{"GOVERSE_NODE_CA": f.CA}, nil, cli.ExitUsage, together},
		"no such file": {nil, []string{"--node-cert", "/none", "--node-key", f.Key, "--node-ca", f.CA}, cli.ExitFailure,
			"--node-cert /none: name a file that this user may read"},
		"no authority in it": {nil, []string{"--node-cert", f.Cert, "--node-key", f.Key, "--node-ca", f.Key},
			cli.ExitFailure, "--node-ca " + f.Key + ": it holds no PEM certificate"},
		"another host": {map[string]string{"GOVERSE_NODE_CERT": f.Cert, "GOVERSE_NODE_KEY": f.Key, "GOVERSE_NODE_CA": f.CA},
			nil, cli.ExitFailure, "--node-cert " + f.Cert + ": it is not for 127.0.0.1, at which others call: issue one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"node", "--log-level", "off", "--listen", "127.0.0.1:0", "--http", "none", "--etcd",
				"127.0.0.1:1"}, c.args...)
			r := runGoversed(t, c.env, args...)
			requireOneLine(t, r, c.code, c.says)
			require.NotContains(t, r.stderr, "mtls")
			require.NotRegexp(t, `[a-z]File\b`, r.stderr, "an operator knows flags")
		})
	}
}

func TestKeysAreNotShown(t *testing.T) {
	t.Parallel()
	a, f := certtest.NewAuthority(t), certtest.NewFiles(t)
	f.Write(t, a.Issue(t, []string{"127.0.0.1"}))
	f.WriteCA(t, a)
	key, err := os.ReadFile(f.Key)
	require.NoError(t, err)
	certtest.ReplaceFile(t, f.Cert, key)
	r := runGoversed(t, nil, "node", "--node-cert", f.Cert, "--node-key", f.Key, "--node-ca", f.CA)
	requireOneLine(t, r, cli.ExitFailure, "it holds no PEM certificate")
	require.NotContains(t, r.stderr, string(key[40:60]), "keys are not shown")
}

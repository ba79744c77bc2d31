package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
)

func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint(), "GOVERSE_TTL": "2s"}
	r := runGoversed(t, env, "doctor")
	require.Equal(t, cli.ExitOK, r.code, r.stdout)
	require.Empty(t, r.stderr)
	require.Regexp(t, `(?m)^ok +leader +`+c.Node(0).Address()+` leads by token \d+; 1 in the queue$`, r.stdout)
	require.Regexp(t, `\n\n[0-9a-z, ]+ ok\n$`, r.stdout)

	r = runGoversed(t, env, "doctor", "--prefix", "/gouverse")
	require.Equal(t, cli.ExitOK, r.code, "a warning is no problem")
	require.Regexp(t, `(?m)^warning +prefix +no node is registered under /gouverse; .* /goverse \(1 node\)$`, r.stdout)
	require.Regexp(t, `(?m)^ +-> check --prefix$`, r.stdout)

	remove := c.PutStrayKey("/goverse/nodes/x", "unreadable")
	r = runGoversed(t, env, "doctor", "-o", "json")
	remove()
	require.Equal(t, cli.ExitFailure, r.code)
	require.Empty(t, r.stderr, "all is said")
	var said struct {
		Worst    diagnosis.Severity
		Findings []diagnosis.Finding
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &said))
	require.Equal(t, diagnosis.Problem, said.Worst)
	require.Equal(t, diagnosis.Problem, diagnosis.Worst(said.Findings))
	require.Contains(t, r.stdout, `{"check":"values","severity":"problem","says":"the record of a node, `)

	r = runGoversed(t, nil, "doctor", "--etcd", "127.0.0.1:1", "--timeout", "1s")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.stdout, "nothing listens there")
}

func TestRBACCommand(t *testing.T) {
	t.Parallel()
	r := runGoversed(t, nil, "rbac", "--prefix", "/orders", "--user", "orders", "--role", "r", "--password-file", "secret")
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	var commands []string
	for line := range strings.Lines(r.stdout) {
		if !strings.HasPrefix(line, "#") {
			commands = append(commands, strings.TrimSuffix(line, "\n"))
		}
	}
	require.Equal(t, []string{"export ETCDCTL_API=3", "etcdctl role add r",
		"etcdctl role grant-permission r readwrite --prefix /orders/accused-silent/",
		"etcdctl role grant-permission r readwrite --prefix /orders/elections/",
		"etcdctl role grant-permission r readwrite --prefix /orders/events/",
		"etcdctl role grant-permission r readwrite /orders/leader- /orders/shards0",
		"etcdctl role grant-permission r readwrite --prefix /orders/work/",
		"etcdctl user add orders --interactive=false <secret", "etcdctl user grant-role orders r"}, commands)
	r = runGoversed(t, nil, "rbac", "--for", "lock", "--user", "none")
	require.Contains(t, r.stdout, "\netcdctl role grant-permission goverse-lock readwrite --prefix /goverse/work/locks/\n")
	require.NotContains(t, r.stdout, "etcdctl user")
}

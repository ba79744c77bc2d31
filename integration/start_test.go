//go:build unix

package integration

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

// longTTL is a TTL that no test waits for: an earlier event has another cause.
const longTTL = 30 * time.Second

// refused waits until a process has failed, and returns the one line with its reason. A line that it waits for etcd may
// come before.
func refused(t *testing.T, p *procs.Process) string {
	t.Helper()
	require.Equal(t, 1, p.Exit(t, patience))
	var errors []string
	for line := range strings.Lines(p.Output()) {
		require.NotContains(t, line, "goroutine ")
		require.NotContains(t, line, "panic")
		if strings.HasPrefix(line, "goversed: ") && !strings.HasPrefix(line, "goversed: waiting for etcd ") {
			errors = append(errors, line)
		}
	}
	require.Len(t, errors, 1, p.Output())
	require.True(t, strings.HasSuffix(p.Output(), errors[0]), "the error is said last")
	t.Log(strings.TrimSpace(errors[0]))
	return errors[0]
}

func TestSecondLivingNodeAtAnAddressIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		cfg := procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL}
		nodes, watch := startNodes(t, cfg, 2)
		token := awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token
		for _, first := range nodes { // the leader and a waiting node
			again := cfg
			again.Flags = []string{"--advertise", first.Address}
			second := kit.StartNode(t, again)
			require.Contains(t, refused(t, second.Process), "give this one another advertise address, or stop that one")
		}
		// The first nodes are not affected: the term and the places in the queue stay the same throughout.
		require.Equal(t, token, awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token)
		for _, s := range watch.Samples() {
			if s.Status.Token > token {
				require.Fail(t, "leadership moved", "%+v", s)
			}
		}
		client := etcd.Client(t, "", "")
		left := procs.Keys(t, client, procs.Prefix)
		// shard keys of the living nodes
		maps.DeleteFunc(left, func(key, _ string) bool { return strings.HasPrefix(key, procs.Prefix+"/shards/") })
		require.Len(t, left, 4, "nothing of the refused is left")
		leases, err := client.Leases(requestContext(t))
		require.NoError(t, err)
		require.Len(t, leases.Leases, 2, "neither is a session")
	})
}

func TestRestartAfterSIGKILLTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		etcd := kit.StartEtcd(t, flavour)
		cfg := procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL}
		nodes, watch := startNodes(t, cfg, 2)
		token := awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token

		nodes[0].Kill(t)
		cfg.Listen = nodes[0].Address
		again, meter := kit.StartNode(t, cfg), pace.StartMeter(t)
		began := time.Now()
		watch.Add(again)
		nodes[0] = again
		st := awaitAgreement(t, patience, nodes, nodes[1].Address, election, []string{nodes[1].Address, again.Address})
		took := time.Since(began)
		t.Logf("%v after its start it is a member, and the next one leads", took)
		require.Less(t, took, meter.Scale(2*time.Second), "without waiting for the lease")
		require.Greater(t, st.Token, token)
		require.Len(t, procs.Keys(t, etcd.Client(t, "", ""), queue), 2, "no ghost in the queue")
	})
}

func TestEtcdUnreachableAtStart(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	nowhere := kit.Addresses(t, 1)[0]
	kit.GoversedPath(t) // built before the time starts
	began := time.Now()
	n := kit.StartNode(t, procs.NodeConfig{Etcd: nowhere, Flags: []string{"--start-timeout", limit.String()}})
	// It lives, and reports that it is not ready, and why.
	n.AwaitStatus(t, patience, "is not started",
		func(st procs.Status) error { return equal("state", st.State, "starting") })
	require.ErrorIs(t, n.Ready(requestContext(t)), procs.ErrAnswer)
	n.AwaitOutput(t, patience, "etcd does not answer, retrying")
	require.Less(t, time.Since(began), limit)
	said := refused(t, n.Process)
	require.GreaterOrEqual(t, time.Since(began), limit, "it tried on")
	require.Contains(t, said, nowhere)
	require.Contains(t, said, "check --etcd and that etcd runs there")
}

func TestEtcdThatComesLaterIsJoined(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		etcd.Kill(t)
		n := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint})
		n.AwaitOutput(t, patience, "etcd does not answer, retrying")
		meter := pace.StartMeter(t)
		returned := etcd.Restart(t)
		n.AwaitStatus(t, patience, "leads", leads)
		took := time.Since(returned)
		t.Logf("%v after etcd came it leads", took)
		require.Less(t, took, meter.Scale(recoveryTime))
	})
}

func TestSIGTERMWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	starting := kit.StartNode(t, procs.NodeConfig{Etcd: kit.Addresses(t, 1)[0]})
	starting.AwaitOutput(t, patience, "etcd does not answer, retrying")
	starting.Signal(t, syscall.SIGTERM)
	require.Zero(t, starting.Exit(t, patience), "it was asked to stop, and did")

	etcd := kit.StartEtcd(t, procs.Etcd37)
	nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL, Flags: []string{"--stop-timeout",
		"3s"}}, 1)
	nodes[0].AwaitStatus(t, patience, "leads", leads)
	etcd.Kill(t)
	signalled := nodes[0].Signal(t, syscall.SIGTERM)
	code := nodes[0].Exit(t, patience)
	t.Logf("it ended after %v with exit code %d:\n%s", time.Since(signalled), code, nodes[0].Output())
	require.Less(t, time.Since(signalled), 6*time.Second, "its stop is bounded")
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close() // no connection was accepted
	free := kit.Addresses(t, 2)
	for flag, args := range map[string][]string{
		"--listen": {"--listen", taken.Addr().String(), "--http", free[0]},
		"--http":   {"--listen", free[0], "--http", taken.Addr().String()},
	} {
		said := refused(t, kit.Goversed(t, append([]string{"node", "--etcd", free[1]}, args...)...))
		require.Contains(t, said, flag)
		require.Contains(t, said, taken.Addr().String())
		require.Regexp(t, "another (address|port)|other", said)
	}
	said := refused(t, kit.Goversed(t, "node", "--listen", free[0], "--http", free[1],
		"--etcd-listen", taken.Addr().String(), "--data-dir", t.TempDir()))
	require.Contains(t, said, "--etcd-listen")
	require.Contains(t, said, taken.Addr().String())
}

func TestDataDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	start := func(dir string) *procs.Process {
		free := kit.Addresses(t, 3)
		return kit.Goversed(t, "node", "--listen", free[0], "--http", free[1], "--etcd-listen", free[2], "--data-dir", dir)
	}
	below := filepath.Join(file, "data")
	said := refused(t, start(below))
	require.Contains(t, said, "--data-dir")
	require.Contains(t, said, below)

	readOnly := t.TempDir()
	require.NoError(t, os.Chmod(readOnly, 0o500))
	if os.Geteuid() != 0 { // root may write everywhere
		require.Contains(t, refused(t, start(readOnly)), readOnly)
	}

	// A directory that another node uses is refused.
	used := t.TempDir()
	first := start(used)
	first.AwaitOutput(t, patience, "this node leads")
	require.Contains(t, refused(t, start(used)), "is used by another running server")
	require.True(t, first.Running())
}

func TestTTLBelowEtcdsFloorIsWarnedOf(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		etcd := kit.StartEtcd(t, flavour)
		nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: time.Second}, 1)
		said := nodes[0].Output()
		require.Contains(t, said, "etcd granted another TTL")
		require.Contains(t, said, "asked=1s granted=2s")
	})
}

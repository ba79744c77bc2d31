//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

func TestLockCommandLine(t *testing.T) {
	t.Parallel()
	kit.GoversedPath(t) // built first, so that no subtest pays for it
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)

	t.Run("exit code", func(t *testing.T) {
		script := filepath.Join(t.TempDir(), "not-executable")
		require.NoError(t, os.WriteFile(script, nil, 0o600))
		for code, command := range map[int][]string{
			0:   {"true"},
			7:   {"sh", "-c", "exit 7"},
			143: {"sh", "-c", "kill -TERM $$"},
			137: {"sh", "-c", "kill -KILL $$"},
			127: {"no-such-command"},
			126: {script},
		} {
			require.Equal(t, code, b.lock(nil, command...).Exit(t, patience), command)
		}
	})
	t.Run("environment", func(t *testing.T) {
		p := b.lock(nil, "env")
		require.Zero(t, p.Exit(t, patience))
		for _, says := range []string{"GOVERSE_LOCK=" + b.name, "GOVERSE_TOKEN=", "GOVERSE_ETCD=" +
			etcd.Endpoint, "GOVERSE_PREFIX=" + procs.Prefix,
			"GOVERSE_KEY=" + procs.Prefix + "/work/locks/"} {
			require.Contains(t, p.Output(), "\n"+says, "in "+p.Output())
		}
	})
	t.Run("bytes that are no UTF-8", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		p := kit.Start(t, "goversed lock", kit.GoversedPath(t), []string{"lock", "name\xff", "--etcd", b.etcd, "--prefix",
			procs.Prefix, "--",
			"sh", "-c", `printf %s "$1 $ODD $GOVERSE_LOCK" > "$2"`, "sh", "argument\xfe", out}, []string{"ODD=variable\xfd"})
		require.Zero(t, p.Exit(t, patience), p.Output())
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, "argument\xfe variable\xfd name\xff", string(text))
	})
	t.Run("one at a time", func(t *testing.T) {
		log := filepath.Join(t.TempDir(), "log")
		// A command fails if another one runs at the same time.
		script := fmt.Sprintf(`flock -n 9 || exit 99; echo "$GOVERSE_TOKEN" >> %s`, log)
		var all []*procs.Process
		for range 8 {
			all = append(all, b.lock(nil, "sh", "-c", fmt.Sprintf("( %s ) 9> %s.lock", script, log)))
		}
		for _, p := range all {
			require.Zero(t, p.Exit(t, patience), p.Output())
		}
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Len(t, strings.Fields(string(text)), len(all))
		require.IsIncreasing(t, numbers(t, string(text)))
	})
	t.Run("busy", func(t *testing.T) {
		inside := filepath.Join(t.TempDir(), "inside")
		holder := b.lock([]string{"--shared"}, "sh", "-c", "touch "+inside+"; exec sleep 60")
		procs.Await(t, patience, "it holds the lock", func() error { _, err := os.Stat(inside); return err })
		require.Equal(t, 124, b.lock([]string{"--nonblock"}, "true").Exit(t, patience))
		require.Equal(t, 9, b.lock([]string{"-n", "-E", "9"}, "true").Exit(t, patience))
		began := time.Now()
		waited := b.lock([]string{"-w", "0.3"}, "true")
		require.Equal(t, 124, waited.Exit(t, patience))
		require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
		require.Contains(t, waited.Output(), "not available within 300ms")
		require.Zero(t, b.lock([]string{"--shared", "-n"}, "true").Exit(t, patience), "it is shared")

		waits := b.lock(nil, "true")
		client := etcd.Client(t, "", "")
		procs.Await(t, patience, "it queues", func() error {
			return equal("places", len(procs.Keys(t, client, procs.Prefix+"/work/locks/"))-len(procs.Keys(t, client,
				procs.Prefix+"/work/locks/batches/")), 2)
		})
		waits.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, waits.Exit(t, patience), "the wait was ended")
		holder.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, holder.Exit(t, patience), "passed on")
		require.Empty(t, procs.Keys(t, client, procs.Prefix+"/work/locks/"), "nothing is left")
	})
	t.Run("signals are passed on and waited for", func(t *testing.T) {
		p := b.lock(nil, "sh", "-c",
			`trap 'echo reload' HUP; trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
		p.AwaitOutput(t, patience, "ready")
		p.Signal(t, syscall.SIGHUP)
		p.AwaitOutput(t, patience, "reload")
		p.Signal(t, syscall.SIGTERM)
		require.Equal(t, 3, p.Exit(t, patience))
		require.Contains(t, p.Output(), "bye")
	})
	t.Run("no etcd", func(t *testing.T) {
		nobody := &workBench{T: t, etcd: kit.Addresses(t, 1)[0], name: "it"}
		p := nobody.lock([]string{"-n", "-w", "500ms"}, "true")
		require.Equal(t, 125, p.Exit(t, patience))
		require.Contains(t, p.Output(), "check --etcd and that etcd runs there")
		// with one, etcd is contacted at once
		for _, user := range [][]string{nil, {"--etcd-user", "u", "--etcd-password", "p"}} {
			p = nobody.lock(append(user, "-w", "500ms"), "true")
			require.Equal(t, 125, p.Exit(t, patience))
			require.Contains(t, p.Output(), "check --etcd and that etcd runs there")
		}
	})
}

func numbers(t *testing.T, text string) []int64 {
	t.Helper()
	var out []int64
	for _, word := range strings.Fields(text) {
		var n int64
		_, err := fmt.Sscan(word, &n)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

// When a lock is lost, its command is ended and goversed reports it.
func TestLockLost(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	p := b.lock([]string{"--ttl", shortTTL.String()}, "sh", "-c", "echo inside; exec sleep 60")
	p.AwaitOutput(t, patience, "inside")
	etcd.Kill(t)
	require.Equal(t, 123, p.Exit(t, patience))
	require.Contains(t, p.Output(), "was lost and the command ended")
	etcd.Restart(t)

	p = b.lock([]string{"--ttl", shortTTL.String()}, "sh", "-c", "echo inside; exec sleep 60")
	p.AwaitOutput(t, patience, "inside")
	client := etcd.Client(t, "", "")
	for key := range procs.Keys(t, client, procs.Prefix+"/work/locks/") {
		_, err := client.Delete(requestContext(t), key) // out of band
		require.NoError(t, err)
	}
	require.Equal(t, 123, p.Exit(t, patience))
}

// A known loss ends the command at once, not at the deadline.
func TestLockRevokedByHand(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	const ttl = 18 * time.Second // noticed at a renewal, within 6 s; the guard alone would wait for 12
	p := b.lock([]string{"--ttl", ttl.String()}, "sh", "-c", "echo inside; exec sleep 60")
	p.AwaitOutput(t, patience, "inside")
	client := etcd.Client(t, "", "")
	leases, err := client.Leases(requestContext(t))
	require.NoError(t, err)
	require.Len(t, leases.Leases, 1)
	_, err = client.Revoke(requestContext(t), leases.Leases[0].ID)
	require.NoError(t, err)
	require.Equal(t, 123, p.Exit(t, ttl/2))
	require.Contains(t, p.Output(), "revoked")
}

// The example in the help works: a write under an old token is refused.
func TestExecFencesWithEtcdctl(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		kit.StartEtcdctl(t, etcd, "version").Exit(t, patience) // skips the test without etcdctl
		b := newWorkBench(t, etcd)
		write := func(value string) string {
			return fmt.Sprintf(`printf 'create("%%s") = "%%s"\n\nput pos %s\n\n\n' "$GOVERSE_KEY" "$GOVERSE_TOKEN" |
				ETCDCTL_API=3 etcdctl --endpoints "$GOVERSE_ETCD" txn | grep -q SUCCESS`, value)
		}
		keep := filepath.Join(t.TempDir(), "environment")
		require.Zero(t, b.lock(nil, "sh", "-c", "export -p > "+keep+"; "+write("first")).Exit(t, patience))
		late := ". " + keep + "; " + write("late")
		// The delayed write fails both while the lock is free and while another holder has it.
		require.Equal(t, 1, kit.Start(t, "late", "sh", []string{"-c", late}, nil).Exit(t, patience))
		require.Zero(t, b.lock(nil, "sh", "-c", "! ( "+late+" ) && "+write("second")).Exit(t, patience))
		require.Equal(t, "second", procs.Keys(t, etcd.Client(t, "", ""), "pos")["pos"])
	})
}

// With access control the guard can do the same as goversed.
func TestExecKilledWithPassword(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	admin := enableAccess(t, etcd)
	b := newWorkBench(t, etcd)
	user := []string{"--etcd-user", nodeUser, "--etcd-password", nodeUser, "--stop-timeout", "300ms"}
	p := b.exec(longTTL, user)
	at := b.awaitAtWork(0, 1)
	p.Kill(t)
	procs.Await(t, patience, "the guard revokes the lease", func() error {
		if left := procs.Keys(t, admin, procs.Prefix+"/elections/"); len(left) > 0 {
			return errors.New("there is a key")
		}
		return nil
	})
	b.exec(longTTL, user)
	b.awaitAtWork(at[0].token, 1)
}

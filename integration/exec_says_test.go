//go:build linux

package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/procs"
)

// said returns the lines of a log without their times.
func said(t *testing.T, log string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(log) {
		_, line, ok := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, ok, log)
		out = append(out, line)
	}
	return out
}

// goversed reports each event in one line on standard error. Standard output is the command's alone.
func TestExecSaysWhatHappens(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	files := t.TempDir()
	// start runs goversed, and returns functions that read its standard output and its log.
	start := func(name, script string, flags ...string) (p *procs.Process, out, log func() string) {
		read := func(kind string) func() string {
			return func() string {
				text, err := os.ReadFile(filepath.Join(files, name+kind))
				require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), err) // the shell is about to create it
				return string(text)
			}
		}
		p = kit.Start(t, "goversed "+name, "sh", append([]string{"-c", fmt.Sprintf(`exec "$@" > %[1]s.out 2> %[1]s.log`,
			filepath.Join(files, name)), "sh",
			kit.GoversedPath(t)}, append(flags, "--etcd", etcd.Endpoint, "--", "sh", "-c", script)...), nil)
		return p, read(".out"), read(".log")
	}
	says := func(log func() string, text string) {
		t.Helper()
		procs.Await(t, patience, text, func() error {
			if !strings.Contains(log(), text) {
				return fmt.Errorf("it says %q", log())
			}
			return nil
		})
	}
	for _, kind := range []string{"election", "lock"} {
		begins, flags := "leads the election", []string{"exec", "--election", "it"}
		if kind == "lock" {
			begins, flags = "holds the lock", []string{"lock", "it", "--log-level", "info"}
		}
		first, out, log := start("first-"+kind, "echo mine; exec sleep 60", flags...)
		says(out, "mine")
		second, next, after := start("second-"+kind, "exit 3", flags...)
		says(after, "waiting")
		first.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, first.Exit(t, patience))
		require.Equal(t, 3, second.Exit(t, patience))
		require.Equal(t, "mine\n", out())
		require.Empty(t, next())
		for _, of := range []struct {
			log  func() string
			want []string
		}{
			{log, []string{
				`\[INFO\]  goversed: ` + begins + `, starting the command: ` + kind + `=it token=\d+ command=sh`,
				`\[INFO\]  goversed: passing the signal on to the command, and waiting for its end; ` +
					`another one kills it: signal=terminated`,
				`\[INFO\]  goversed: the command ended: ` + kind + `=it token=\d+ code=143`,
			}},
			{after, []string{
				`\[INFO\]  goversed: waiting for the ` + kind + `: ` + kind + `=it held_by=\S+:` + fmt.Sprint(first.Pid()),
				`\[INFO\]  goversed: ` + begins + `, starting the command: ` + kind + `=it token=\d+ command=sh`,
				`\[INFO\]  goversed: the command ended: ` + kind + `=it token=\d+ code=3`,
			}},
		} {
			lines := said(t, of.log())
			require.Len(t, lines, len(of.want), "%s", lines)
			for i, want := range of.want {
				require.Regexp(t, regexp.MustCompile("^"+want+"$"), lines[i])
			}
		}
	}

	// A requested change is no warning.
	first, _, log := start("from", "exec sleep 60", "exec", "--election", "moved")
	says(log, "starting the command")
	second, _, after := start("to", "exec sleep 60", "exec", "--election", "moved")
	says(after, "waiting")
	require.Zero(t, kit.Goversed(t, "elections", "resign", "moved", "--etcd", etcd.Endpoint).Exit(t, patience))
	says(log, "leadership goes to another candidate as was asked for")
	says(log, "waiting for the election")
	for _, p := range []*procs.Process{first, second} {
		p.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, p.Exit(t, patience))
	}
	for _, text := range []string{log(), after()} {
		for _, line := range said(t, text) {
			require.Regexp(t, `^\[INFO\] `, line)
		}
	}
	require.Contains(t, log(), "a signal ends the wait: signal=terminated")
}

// An outage is reported in terms of the command: each fact once, and without internals.
func TestExecSaysOfAnOutage(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	p := kit.Goversed(t, "exec", "--election", "it", "--ttl", "10s", "--etcd", etcd.Endpoint, "--", "sleep", "600")
	p.AwaitOutput(t, patience, "starting the command")
	etcd.Kill(t)
	p.AwaitOutput(t, patience, "leadership was lost and the command ended, campaigning again")
	p.AwaitOutput(t, patience, "the session is lost, opening a new one")
	etcd.Restart(t)
	p.AwaitOutput(t, patience, "session restored")
	for _, within := range []string{"watch of queues", "could not give leadership up", "node"} {
		require.NotContains(t, p.Output(), within)
	}
}

// A command that does not end on request is killed by a second signal, or at the end of its grace period.
func TestExecDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	const deafScript = `trap "" HUP TERM INT; sleep 600 & echo ready; while :; do sleep 0.05; done`
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := b.lock([]string{"--log-level", "info"}, "sh", "-c", deafScript)
		p.AwaitOutput(t, patience, "ready")
		p.Signal(t, sig)
		p.AwaitOutput(t, patience, "another one kills it")
		procs.SleepUntil(time.Now().Add(500 * time.Millisecond)) // any sooner, it counts as an echo of the first one
		require.True(t, p.Running(), "one signal does not end it")
		p.Signal(t, sig)
		require.Equal(t, 137, p.Exit(t, patience))
		require.Contains(t, p.Output(), "[WARN]  goversed: killing the command: it has not ended, and a second signal came")
	}
	// At the default log levels, a long wait is reported.
	for _, verb := range [][]string{{"exec", "--election", "stubborn"}, {"lock", "stubborn"}} {
		p := kit.Goversed(t, append(verb, "--etcd", etcd.Endpoint, "--", "sh", "-c", deafScript)...)
		p.AwaitOutput(t, patience, "ready")
		p.Signal(t, syscall.SIGTERM)
		const says = "[WARN]  goversed: the command has not ended after the signal, waiting for it: a second SIGINT or " +
			"SIGTERM kills it\n"
		p.AwaitOutput(t, patience, says)
		p.Signal(t, syscall.SIGTERM)
		require.Equal(t, 137, p.Exit(t, patience))
		require.Equal(t, 1, strings.Count(p.Output(), says))
	}
	p := b.lock([]string{"--grace", "200ms"}, "sh", "-c", deafScript)
	p.AwaitOutput(t, patience, "ready")
	p.Signal(t, syscall.SIGHUP) // this requests no end
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, 137, p.Exit(t, patience))
	require.Contains(t, p.Output(), "killing the command: it has not ended within its grace period: grace_period=200ms")
	require.NotContains(t, p.Output(), "waiting for it")
	require.Zero(t, b.lock([]string{"-n"}, "true").Exit(t, patience), "it is free")
}

// A command under the leader's exec cannot wait for the same election.
func TestExecWithinItself(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	goversed := kit.GoversedPath(t)
	run := func(flags []string, within ...string) *procs.Process {
		return kit.Goversed(t, append(append(flags, "--etcd", etcd.Endpoint, "--"), within...)...)
	}
	election, lock := []string{"exec", "--election", "it"}, []string{"lock", "it"}
	p := run(election, goversed, "exec", "--", "true") // the environment names the election
	require.Equal(t, 125, p.Exit(t, patience))
	require.Contains(t, p.Output(), `election "it" is led by the goversed exec that this one runs under`)
	p = run(lock, goversed, "exec", "--election", "it", "--", goversed, "lock", "it", "--", "true")
	require.Equal(t, 125, p.Exit(t, patience))
	require.Contains(t, p.Output(), `lock "it" is held by the goversed lock that this one runs under`)
	require.Zero(t, run(lock, goversed, "lock", "other", "--", goversed, "exec", "--election", "it", "--", "true").Exit(t,
		patience))
	require.Zero(t, run([]string{"lock", "it", "--shared"}, goversed, "lock", "it", "--shared", "--", "true").Exit(t,
		patience))
	// A process that outlives the lock is no longer inside it.
	keep := filepath.Join(t.TempDir(), "environment")
	require.Zero(t, run(lock, "sh", "-c", "export -p > "+keep).Exit(t, patience))
	require.Zero(t, kit.Start(t, "later", "sh", []string{"-c", ". " + keep + "; exec " + goversed +
		" lock it -- true"}, nil).Exit(t, patience))
}

// A refusal by etcd is reported at once, in one line that names the remedy.
func TestExecRefusedByEtcd(t *testing.T) {
	t.Parallel()
	certs, strangers := procs.NewCertificates(t), procs.NewCertificates(t)
	secure := kit.StartTLSEtcd(t, certs)
	etcd := kit.StartEtcd(t, procs.Etcd34)
	admin := enableAccess(t, etcd)
	const stranger, reader = "stranger", "reader"
	for _, user := range []string{stranger, reader} {
		_, err := admin.UserAdd(requestContext(t), user, user)
		require.NoError(t, err)
	}
	_, err := admin.RoleAdd(requestContext(t), reader)
	require.NoError(t, err)
	_, err = admin.RoleGrantPermission(requestContext(t), reader, allKeysEnd, allKeysEnd,
		clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = admin.UserGrantRole(requestContext(t), reader, reader)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		etcd  string
		flags []string
		says  string
	}{
		"no user": {etcd.Endpoint, nil, "none was given; set --etcd-user (GOVERSE_ETCD_USER)"},
		"wrong password": {etcd.Endpoint, []string{"--etcd-user", nodeUser, "--etcd-password", "x"},
			"--etcd-password (GOVERSE_ETCD_PASSWORD)"},
		"no right": {etcd.Endpoint, []string{"--etcd-user", stranger, "--etcd-password", stranger},
			"grant it READ and WRITE on all of " + procs.Prefix},
		"another's authority": {secure, []string{"--etcd-cacert", strangers.CA, "--etcd-cert", strangers.Cert,
			"--etcd-key", strangers.Key}, "--etcd-cacert"},
		"no certificate of ours": {secure, []string{"--etcd-cacert", certs.CA}, "--etcd-cert"},
	} {
		for _, verb := range [][]string{{"exec", "--election", "it"}, {"lock", "it"}, {"lock", "it", "-n"}} {
			t.Run(name+" "+strings.Join(verb, " "), func(t *testing.T) {
				t.Parallel()
				args := append(append(verb, "--etcd", c.etcd, "--prefix", procs.Prefix), c.flags...)
				p := kit.Goversed(t, append(args, "--", "echo", "it runs")...)
				require.Equal(t, 125, p.Exit(t, patience))
				require.Contains(t, p.Output(), c.says)
				oneLine(t, p.Output())
			})
		}
	}
	// A refusal that affects only a queued candidate, possibly while another one waits, also ends the wait.
	for _, verb := range [][]string{{"exec", "--election", "it"}, {"lock", "it"}} {
		p := kit.Goversed(t, append(verb, "--etcd", etcd.Endpoint, "--etcd-user", reader, "--etcd-password", reader, "--",
			"true")...)
		require.Equal(t, 125, p.Exit(t, patience))
		require.Contains(t, p.Output(), `goversed: etcd refused the user "reader": `+
			`grant it READ and WRITE on all of /goverse/`)
		oneLine(t, p.Output())
	}
}

// oneLine fails unless the output is one line. A line that a command waits may precede it, if etcd's refusal
// took some time.
func oneLine(t *testing.T, output string) {
	t.Helper()
	lines := slices.Collect(strings.Lines(output))
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, "[INFO]  goversed: waiting for the election: ")
	})
	require.Len(t, lines, 1, output)
}

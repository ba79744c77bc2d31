package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
)

func TestBadCommandLinesOfExecAndLock(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"exec":                                "there is no command to run: write it behind --",
		"exec --etcd a:1 --election e":        "there is no command to run: write it behind --",
		"exec --etcd a:1 --election e --":     "there is no command to run: write it behind --",
		"exec --etcd a:1 --election e true":   `unexpected argument "true": write -- before the command to run`,
		"exec --etcd a:1 --election e ls -la": `unexpected argument "ls": write -- before the command to run`,
		"lock a ls -la --etcd a:1":            `unexpected argument "ls": write -- before the command to run`,
		"lock a -la --etcd a:1 -- true": "unknown shorthand flag: 'l' in -la; see goversed " +
			"lock --help",
		"exec --etcd a:1 --election e stray -- true":       `unexpected argument "stray" before --: take it out`,
		"exec --etcd a:1 -- true":                          "--election is missing: give the name",
		"exec --etcd= --election e -- true":                "--etcd is empty: give etcd's host:port",
		"exec --etcd localhost --election e -- true":       "--etcd localhost: write host:port",
		"exec --etcd a:1 --election e --ttl 500ms -- true": "--ttl 500ms: give whole seconds",
		"exec --etcd a:1 --election e --ttl 10 -- true":    "--ttl 10: write it like 10s",
		"exec --etcd a:1 --election e --prefix x -- true":  "--prefix: bad etcd prefix",
		"exec --etcd a:1 --election e --nonblock -- true":  "unknown flag: --nonblock: it is a flag of goversed lock; see",
		"lock a --etcd a:1":                                "there is no command to run",
		"lock a true --etcd a:1":                           `unexpected argument "true": write -- before the command`,
		"lock --etcd a:1 -- true":                          "the NAME of the lock is missing: write it before --",
		"lock a b --etcd a:1 -- true":                      `unexpected argument "b" before --: take it out`,
		"lock a --etcd= -- true":                           "--etcd is empty",
		"lock a --etcd a:1 --stop-timeout 6s -- true": "--stop-timeout 6s: it must fit in before the " +
			"deadline, so give more than 0 and at most half of --ttl, 5s",
		"lock a --etcd a:1 --stop-timeout 0 -- true":     "--stop-timeout 0s: it must fit in",
		"exec --etcd a:1 --election e --grace 0 -- true": "--grace 0s: give more than 0; leave it out to wait",
		"lock a --etcd a:1 --grace -1s -- true":          "--grace -1s: give more than 0",
		"lock a --etcd a:1 --timeout 0 -- true": "--timeout 0s: give more than 0; leave it out to wait " +
			"forever",
		"lock a --etcd a:1 -w soon -- true":           "--timeout soon: write it like 10s",
		"lock a --etcd a:1 -E 256 -- true":            "--conflict-exit-code 256: give a number from 1 to 255",
		"lock a --etcd a:1 --log-level loud -- true":  `--log-level "loud"`,
		"lock a --etcd a:1 --etcd-password p -- true": "without --etcd-user",
		"lock a --etcd a:1 --etcd-user u -- true": "--etcd-user is given without a password: give it as " +
			"GOVERSE_ETCD_PASSWORD",
		"lock a --etcd a:1 --etcd-cert c -- true":          "--etcd-cert and --etcd-key belong together",
		"lock a --etcd http://a:1 --etcd-cacert c -- true": "would not be encrypted although certificates are given",
		"lock --etcd a:1 " + strings.Repeat("x", 513) + " -- true": "NAME: bad name for the lock: it has 513 bytes; " +
			"give it from 1 to 512",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			requireOneLine(t, runGoversed(t, nil, strings.Fields(line)...), cli.ExitUsage, says)
		})
	}
	requireOneLine(t, runGoversed(t, nil, "lock", "", "--etcd", "a:1", "--", "true"), cli.ExitUsage,
		"the NAME of the lock is empty")
}

// An unusable file is not an error in the command line. It is a failure of goversed's own, like everything that
// keeps the command from running.
func TestFilesOfExecAndLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	for _, verb := range []string{"exec --election a", "lock a", "lock a -n"} {
		for flags, says := range map[string]string{
			"--etcd-cacert /nonexistent":              "--etcd-cacert /nonexistent: name a file that this user may read",
			"--etcd-cacert " + file:                   "holds no PEM certificate",
			"--etcd-cert " + file + " --etcd-key /no": "--etcd-key /no: name a file that this user may read",
			"--etcd-user u --etcd-password-file /no":  "--etcd-password-file: name a file that this user may read",
		} {
			line := verb + " --etcd a:1 " + flags + " -- true"
			requireOneLine(t, runGoversed(t, nil, strings.Fields(line)...), supervise.ExitFailed, says)
		}
	}
}

func TestCommandThatIsNotThere(t *testing.T) {
	t.Parallel()
	requireOneLine(t, runGoversed(t, nil, "lock", "a", "--etcd", "127.0.0.1:1", "--", "no-such-command"),
		supervise.ExitNotFound,
		"no-such-command: there is no such command")
}

func TestGuardByHand(t *testing.T) {
	t.Parallel()
	r := runGoversed(t, nil, "--help")
	require.NotContains(t, r.stdout, "guard")
	require.Contains(t, r.stdout, "exec ")
	require.Contains(t, r.stdout, "lock ")
}

// The guard has the settings of its parent, also where these are empty although there are variables.
func TestGuardSettings(t *testing.T) {
	given := map[string]string{"etcd": "a:1", "prefix": "/p", "etcd-user": "", "etcd-password": "",
		"etcd-password-file": "", "etcd-cacert": "", "etcd-cert": "", "etcd-key": "", "etcd-fixed": "false"}
	for flag := range given {
		t.Setenv(cli.EnvName(flag), "true")
	}
	f := superviseFlags{etcd: etcdFlags{address: given["etcd"], prefix: given["prefix"]}}
	args, variables := f.guardCommand()
	env := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	guard := newGuard()
	require.NoError(t, guard.ParseFlags(args[1:]))
	require.NoError(t, cli.ApplyEnv(guard, envLookup(env)))
	for flag, value := range given {
		require.Equal(t, value, guard.Flags().Lookup(flag).Value.String(), flag)
	}
}

func TestHelpOfExecAndLock(t *testing.T) {
	t.Parallel()
	for verb, more := range map[string]string{"exec": "ends COMMAND and queues again", "lock": "flock(1)"} {
		r := runGoversed(t, nil, verb, "--help")
		require.Equal(t, cli.ExitOK, r.code)
		text := strings.Join(strings.Fields(r.stdout), " ")
		for _, says := range []string{"Examples:", "SIGTERM", "Descendants that left the group (setsid, daemons) are",
			"GOVERSE_TOKEN", "GOVERSE_KEY",
			"etcdctl", "Exit codes:", "[GOVERSE_ETCD]", "[GOVERSE_STOP_TIMEOUT]", "--cgroup", "Ctrl-C", "A second signal, " +
				"half a second later or more, kills", "[GOVERSE_GRACE]", "env -u GOVERSE_ETCD_PASSWORD",
			"the process that goversed waits for", more} {
			require.Contains(t, text, says)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5": 500 * time.Millisecond,
		"2m": 2 * time.Minute} {
		var s secondsFlag
		require.NoError(t, s.Set(text))
		require.Equal(t, want.String(), s.String())
	}
	for _, text := range []string{"", "soon", "3 days"} {
		require.Error(t, new(secondsFlag).Set(text))
	}
}

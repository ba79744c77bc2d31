package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
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
		"lock a --postgres postgres://h/d --etcd a:1 -- true": "--etcd concerns etcd, and --postgres is given: leave one " +
			"of them out",
		"lock a --postgres postgres://h/d --etcd-cacert c -- true": "--etcd-cacert concerns etcd, and --postgres is given",
		"exec --election e --postgres postgres://h/d --prefix /p -- true": "--prefix concerns etcd, and --postgres is " +
			"given",
		"lock a --schema s -- true":                                   "--schema concerns PostgreSQL: give --postgres, too",
		"lock a --postgres postgres://h:x/d -- true":                  "--postgres: bad configuration of the session: URL",
		"lock a --postgres postgres://h/d --ttl 400ms -- true":        "--ttl 400ms: give from 500ms to 1m0s in PostgreSQL",
		"lock a --postgres postgres://h/d --ttl 2h -- true":           "leave it out for 3s",
		"exec --election e --postgres postgres://h/d --ttl=0 -- true": "--ttl 0s: give from 500ms",
		"lock a --postgres postgres://h/d --stop-timeout 2s -- true": "--stop-timeout 2s: it must fit in before the " +
			"deadline, so give more than 0 and at most half of --ttl, 1.5s",
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
		line := verb + " --postgres postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/nonexistent -- true"
		r := runGoversed(t, nil, strings.Fields(line)...)
		requireOneLine(t, r, supervise.ExitFailed, "--postgres: ", "/nonexistent")
		require.NotContains(t, r.stderr, "secret")
	}
}

// PostgreSQL is used if it is given, unless etcd is given with more weight.
func TestPostgresOrEtcd(t *testing.T) {
	t.Parallel()
	const db, etcd = "postgres://h/d", "a:1"
	for _, c := range []struct {
		line       string
		env        map[string]string
		inPostgres bool
	}{
		{"", nil, false},
		{"--etcd " + etcd, nil, false},
		{"--postgres " + db, nil, true},
		{"", map[string]string{"GOVERSE_POSTGRES": db}, true},
		{"", map[string]string{"GOVERSE_POSTGRES": db, "GOVERSE_PREFIX": "/p"}, true},
		{"--postgres " + db, map[string]string{"GOVERSE_ETCD": etcd}, true},
		{"--etcd " + etcd, map[string]string{"GOVERSE_POSTGRES": db, "GOVERSE_SCHEMA": "s"}, false},
	} {
		cmd, f := &cobra.Command{}, &superviseFlags{}
		f.register(cmd, "warn")
		require.NoError(t, cmd.ParseFlags(strings.Fields(c.line)))
		require.NoError(t, cli.ApplyEnv(cmd, envLookup(c.env)))
		inPostgres, err := f.postgres.used(cmd)
		require.NoError(t, err, c)
		require.Equal(t, c.inPostgres, inPostgres, c)
	}
	cmd, f := &cobra.Command{}, &superviseFlags{}
	f.register(cmd, "warn")
	require.NoError(t, cli.ApplyEnv(cmd, envLookup(map[string]string{"GOVERSE_POSTGRES": db, "GOVERSE_ETCD": etcd})))
	_, err := f.postgres.used(cmd)
	require.ErrorIs(t, err, errBothStores)
}

// A nested goversed uses the store of the one around it, whatever other variables there are, unless that has got a
// password by a flag.
func TestNestedStore(t *testing.T) {
	const db, secret, other = "postgres://h/d", "postgres://u:p@h/d", "postgres://other/d"
	for _, c := range []struct{ line, etcd, postgres, nestedEtcd, nestedPostgres string }{
		{"--postgres " + db, "", "", "", db},
		{"--postgres " + db, "a:1", other, "", db},
		{"", "", secret, "", secret},
		{"--postgres " + secret, "a:1", secret, "", secret},
		{"--postgres " + secret, "a:1", other, "a:1", ""},
		{"--etcd a:1", "b:1", db, "a:1", ""},
	} {
		t.Setenv(cli.EnvName("etcd"), c.etcd)
		t.Setenv(cli.EnvName("postgres"), c.postgres)
		cmd, f := &cobra.Command{}, &superviseFlags{}
		f.register(cmd, "warn")
		require.NoError(t, cmd.ParseFlags(strings.Fields(c.line)))
		require.NoError(t, cli.ApplyEnv(cmd, os.LookupEnv))
		var err error
		f.inPostgres, err = f.postgres.used(cmd)
		require.NoError(t, err)
		env := map[string]string{}
		for _, v := range f.commandEnv() { // the last definition counts
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		require.Equal(t, []string{c.nestedEtcd, c.nestedPostgres},
			[]string{env[cli.EnvName("etcd")], env[cli.EnvName("postgres")]}, c)
		nested, g := &cobra.Command{}, &superviseFlags{}
		g.register(nested, "warn")
		require.NoError(t, cli.ApplyEnv(nested, envLookup(env)))
		inPostgres, err := g.postgres.used(nested)
		require.NoError(t, err, c)
		require.Equal(t, c.nestedPostgres != "", inPostgres, c)
	}
}

// A nested goversed gets the URL of PostgreSQL unless that has a password.
func TestPostgresWithoutPassword(t *testing.T) {
	t.Parallel()
	for at, passed := range map[string]bool{"postgres://u@h/d": true, "postgres://u:p@h/d": false,
		"postgres://u@h/d?password=p": false, "postgres://u@h/d?sslpassword=p": false, "host=h user=u": true,
		"host=h password=p": false, "host=h sslpassword=p": false, "://": true} {
		p := postgresFlags{url: at}
		require.Equal(t, passed, p.withoutPassword() == at, at)
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
		"etcd-password-file": "", "etcd-cacert": "", "etcd-cert": "", "etcd-key": "", "etcd-fixed": "false", "postgres": "",
		"schema": "s"}
	for flag := range given {
		t.Setenv(cli.EnvName(flag), "true")
	}
	for _, inPostgres := range []bool{false, true} {
		f := superviseFlags{etcd: etcdFlags{address: given["etcd"], prefix: given["prefix"]}, inPostgres: inPostgres,
			postgres: postgresFlags{url: "postgres://u:p@h/d", schema: given["schema"]}}
		args, variables := f.guardCommand()
		require.NotContains(t, strings.Join(args, " "), "postgres://", "process lists show it")
		env := map[string]string{}
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		guard := newGuard()
		require.NoError(t, guard.ParseFlags(args[1:]))
		require.NoError(t, cli.ApplyEnv(guard, envLookup(env)))
		if inPostgres {
			given["postgres"] = f.postgres.url
		}
		for flag, value := range given {
			require.Equal(t, value, guard.Flags().Lookup(flag).Value.String(), flag)
		}
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
			"etcdctl", "psql", "GOVERSE_SCHEMA", "[GOVERSE_POSTGRES]",
			"Exit codes:", "[GOVERSE_ETCD]", "[GOVERSE_STOP_TIMEOUT]", "--cgroup", "Ctrl-C",
			"A second signal, half a second later or more, kills", "[GOVERSE_GRACE]", "env -u GOVERSE_ETCD_PASSWORD",
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

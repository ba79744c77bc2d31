package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
)

// guardedHelp is the part of the help that exec and lock share.
const guardedHelp = `
COMMAND runs in a process group of its own. goversed ends that group, with SIGTERM and then SIGKILL,
before another process can lead the election or hold the lock. This holds if etcd or PostgreSQL does
not confirm the session in time, and also if goversed is killed or paused, because a small second
process, goversed guard, watches it. Processes that COMMAND leaves behind in its group are ended
before the election or the lock is released. Descendants that left the group (setsid, daemons) are
ended only with --cgroup. If goversed and its guard are killed at the same moment, the children of
COMMAND keep running.

goversed passes its signals on to the group. After the first SIGINT or SIGTERM it waits for COMMAND
to end, releases the election or the lock, and does not run COMMAND again. If COMMAND still runs
after 2 seconds, the log reports that. A second signal, half a second later or more, kills the group
with SIGKILL immediately, and so does the end of --grace. At a terminal COMMAND gets Ctrl-C directly;
in a pipe, goversed passes it on. Ctrl-Z does not stop COMMAND.

With --postgres URL the election or lock is kept in PostgreSQL, and no etcd is needed; all processes
that exclude each other must use the same. If both GOVERSE_ETCD and GOVERSE_POSTGRES are set, give one
of --etcd and --postgres on the command line. goversed needs three connections, and one for a moment
when it waits or was killed. Passwords can also be in PGPASSWORD or in the file that PGPASSFILE names.

While etcd or PostgreSQL cannot be reached, goversed waits for it and logs that. goversed exits with
125 if it refuses the user, the password, a right or a certificate at the start. It does so too if a
password or certificate file cannot be used, or a certificate has expired. These files are read again
when they change. If a changed file cannot be used, COMMAND keeps running while the session is valid.

COMMAND has the environment of goversed, and these variables:

  GOVERSE_ELECTION   the election's name, or GOVERSE_LOCK with the lock's name
  GOVERSE_ETCD       the addresses of etcd, empty with PostgreSQL
  GOVERSE_PREFIX     the prefix of the cluster's keys in etcd
  GOVERSE_POSTGRES   the URL of PostgreSQL, unless it was given with a password and as a flag; empty
                     with etcd
  GOVERSE_SCHEMA     the schema of the tables in PostgreSQL
  GOVERSE_TOKEN      a number that is larger than the token of every earlier holder
  GOVERSE_KEY        the holder's key in etcd; its create revision is the token. In PostgreSQL, the
                     column name of the row in the table claim with that token
  GOVERSE_KEYS       the keys of all enclosing goversed exec and lock, for a nested goversed

A store should refuse a token that is smaller than one it has seen before. In etcd, write on the
condition that GOVERSE_KEY has GOVERSE_TOKEN as its create revision. Such a write fails once this
process is no longer the holder:

  printf 'create("%s") = "%s"\n\nput pos 42\n\n\n' "$GOVERSE_KEY" "$GOVERSE_TOKEN" |
    etcdctl --endpoints "$GOVERSE_ETCD" txn | grep -q SUCCESS

In PostgreSQL, lock that row in the transaction that writes. The division fails without it:

  echo "begin; select 1 / count(*) from (select from goverse.claim
    where name = :'key' and token = :'token' for key share) held; update pos set at = 42; commit" |
    psql "$GOVERSE_POSTGRES" -v ON_ERROR_STOP=1 -v key="$GOVERSE_KEY" -v token="$GOVERSE_TOKEN"

COMMAND also inherits GOVERSE_ETCD_USER and GOVERSE_ETCD_PASSWORD where they are set, so that it can
log in to etcd. To hide the password from COMMAND, put env -u GOVERSE_ETCD_PASSWORD before it. A user
and a password that goversed got by flags are not passed on.

The log goes to standard error; standard output is only for COMMAND. At --log-level info the log
names the process that goversed waits for, the start of COMMAND, and the exit code of COMMAND.
`

func newExec() *cobra.Command {
	f := &superviseFlags{}
	var election string
	cmd := &cobra.Command{
		Use:   "exec --election NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command only while leading an election",
		Long: `Wait until this process leads the election NAME, and then run COMMAND. Start it for the same
election on several hosts: only one of them runs COMMAND at a time. When that one ends, the next
one takes over within milliseconds.

If COMMAND ends by itself, goversed releases the leadership and exits with the exit code of COMMAND.
If leadership is lost while COMMAND runs, goversed ends COMMAND and queues again.
` + guardedHelp + `
Exit codes: that of COMMAND, or 128 + n if signal n ended COMMAND or the wait for leadership.
125 goversed failed or was refused, 126 COMMAND cannot be run, 127 COMMAND does not exist,
2 the command line is wrong.`,
		Example: `  goversed exec --election outbox --etcd 127.0.0.1:2379 -- ./publish-outbox
  GOVERSE_ETCD=a:2379,b:2379 goversed exec --election nightly --stop-timeout 5s --ttl 15s -- ./report.py
  GOVERSE_POSTGRES=postgres://host/db goversed exec --election feed -- ./feed
  goversed exec --election feed --etcd a:2379 --cgroup -- sh -c 'echo "I lead with $GOVERSE_TOKEN"; exec ./feed'`,
		DisableFlagsInUseLine: true,
		Args:                  requireCommand(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if election == "" {
				return cli.WrapUsage(cmd.CommandPath(), errors.New("--election is missing: give the name of the election, for "+
					"example outbox"))
			}
			return f.superviseCommand(cmd, supervise.Config{Election: election, Command: args})
		},
	}
	cmd.Flags().StringVar(&election, "election", "", "`name` of the election, of your choice")
	f.register(cmd, "info")
	return reportMissingDash(cmd, 0)
}

// requireCommand requires the given number of words, then -- and at least one more.
func requireCommand(words int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		at := cmd.ArgsLenAtDash()
		switch {
		case at > words:
			return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("unexpected argument %q before --: take it out, or write it "+
				"behind -- if it is the command's", args[words]))
		case at < 0 && len(args) > words:
			return cli.WrapUsage(cmd.CommandPath(),
				fmt.Errorf("unexpected argument %q: write -- before the command to run", args[words]))
		case at < 0, len(args) == at:
			return cli.WrapUsage(cmd.CommandPath(),
				errors.New("there is no command to run: write it behind --, as in -- ./publish"))
		}
		return nil
	}
}

// reportMissingDash makes an unknown flag after the first word of the command report the missing --, like that word
// alone.
func reportMissingDash(cmd *cobra.Command, words int) *cobra.Command {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); len(args) > words && cmd.ArgsLenAtDash() < 0 {
			return requireCommand(words)(cmd, args)
		}
		return cli.WrapUsage(cmd.CommandPath(), cli.ExplainBadFlag(cmd, err))
	})
	return cmd
}

// secondsFlag is a flag for a duration that also accepts a bare number of seconds, like flock(1).
type secondsFlag time.Duration

// Set implements pflag.Value.
func (s *secondsFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil && !strings.ContainsAny(text, "hmnsuµ") {
		d, err = time.ParseDuration(text + "s")
	}
	*s = secondsFlag(d)
	return err
}

// String implements pflag.Value.
func (s *secondsFlag) String() string { return time.Duration(*s).String() }

// Type implements pflag.Value.
func (s *secondsFlag) Type() string { return "duration" }

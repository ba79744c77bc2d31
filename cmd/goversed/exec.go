package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// superviseFlags holds the flags that exec and lock share.
type superviseFlags struct {
	etcd                   etcdFlags
	ttl, stop, gracePeriod time.Duration
	cgroup                 bool
	logLevel               string
}

func (f *superviseFlags) register(cmd *cobra.Command, logLevel string) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.etcd.register(fs, defaultEtcd, etcdUsage)
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, "how long others wait for a host that vanished; whole seconds")
	fs.DurationVar(&f.stop, "stop-timeout", 0, "time between SIGTERM and SIGKILL when leadership or lock is lost, at "+
		"most half of --ttl (default: a quarter of it)")
	fs.DurationVar(&f.gracePeriod, "grace", 0, "time between SIGINT or SIGTERM to goversed, which is passed on, and "+
		"SIGKILL (default: no limit)")
	fs.BoolVar(&f.cgroup, "cgroup", false, "run COMMAND in a cgroup of its own (Linux, cgroup v2), so that no "+
		"descendant escapes")
	fs.StringVar(&f.logLevel, "log-level", logLevel, "trace, debug, info, warn, error or off")
}

// guardedHelp is the part of the help that exec and lock share.
const guardedHelp = `
COMMAND runs in a process group of its own. SIGTERM and then SIGKILL end the group in time
before others may go on: when etcd has not confirmed the session, when goversed is killed (a
small process of its own, goversed guard, sees to that) or stands still. What COMMAND leaves
behind in its group is ended before the release. Not ended are descendants that left the group
(setsid, daemons), except with --cgroup, and the children of COMMAND when goversed and its guard
are killed at the same moment.

Signals that goversed gets are passed to COMMAND's group. The first SIGINT or SIGTERM asks for
the end: goversed waits for COMMAND, releases when it has ended, and does not run it again. A
second one, half a second later or more, kills the group with SIGKILL at once, and so does the
end of --grace; where COMMAND still runs after 2 seconds, the log says so. At a terminal Ctrl-C is
COMMAND's own, except in a pipe, where goversed passes it on; Ctrl-Z does not stop it.

While etcd cannot be reached goversed waits for it, and says so. What etcd refuses at the start, a
user, a password, a right or a certificate, ends it with 125, and so does a file of a password or a
certificate that cannot be used, or a certificate that has expired. These files are read again when
they change; COMMAND goes on as long as the session does.

COMMAND has in its environment, beside that of goversed, GOVERSE_ELECTION or GOVERSE_LOCK,
GOVERSE_ETCD, GOVERSE_PREFIX, GOVERSE_TOKEN, a number that is larger than that of all who held
it before, GOVERSE_KEYS, by which a goversed that it runs sees what it is in, and GOVERSE_KEY,
the key in etcd whose create revision is the token while this one holds: what is written to etcd
on this condition cannot come late,

  printf 'create("%s") = "%s"\n\nput pos 42\n\n\n' "$GOVERSE_KEY" "$GOVERSE_TOKEN" |
    etcdctl --endpoints "$GOVERSE_ETCD" txn | grep -q SUCCESS

and other stores should refuse a smaller token than they have seen. That of goversed includes
GOVERSE_ETCD_USER and GOVERSE_ETCD_PASSWORD where they are set, so that COMMAND can do so; to keep
the password from it, put env -u GOVERSE_ETCD_PASSWORD before COMMAND. A user and password that
goversed got by flags are not handed on.

The log goes to the standard error, the standard output is COMMAND's alone. At --log-level info
it says for whom goversed waits, when it starts COMMAND, and with which code that ended.
`

func newExec() *cobra.Command {
	f := &superviseFlags{}
	var election string
	cmd := &cobra.Command{
		Use:   "exec --election NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command only while leading an election",
		Long: `Wait until this process leads the election NAME, and run COMMAND: of all that are started
for the same election, on whichever host, one runs it at a time, and the next one takes over
within milliseconds when that ends.

When COMMAND ends by itself, goversed gives leadership up and ends too, with its exit code.
When leadership is lost while it runs, COMMAND is ended, and goversed queues again.
` + guardedHelp + `
Exit codes: that of COMMAND, or 128 + n if signal n ended it or the wait for leadership; 125
goversed failed or was refused, 126 COMMAND cannot be run, 127 it is not there, 2 the command line is wrong.`,
		Example: `  goversed exec --election outbox --etcd 127.0.0.1:2379 -- ./publish-outbox
  GOVERSE_ETCD=a:2379,b:2379 goversed exec --election nightly --stop-timeout 5s --ttl 15s -- ./report.py
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
	cmd.Flags().StringVar(&election, "election", "", "`name` of the election, yours to choose")
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

// superviseCommand executes the command line. Cfg has the settings of the particular verb.
func (f *superviseFlags) superviseCommand(cmd *cobra.Command, cfg supervise.Config) error {
	etcd, err := f.config(cmd, &cfg)
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	release, err := f.etcd.openFiles(&etcd)
	if err != nil {
		return &cli.ExitCodeError{Code: supervise.ExitFailed, Err: err}
	}
	defer release()
	defer onHangup(func() { f.etcd.reloadFiles(etcd.Logger) })() // the command gets SIGHUP, too
	cfg.Etcd = operator.Etcd(etcd)
	signals := make(chan os.Signal, 16)
	if caught := supervise.Signals(); len(caught) > 0 { // Notify without signals would catch all
		signal.Notify(signals, caught...)
		defer signal.Stop(signals)
	}
	return supervise.Run(cfg, signals)
}

// config reads the flags, but not the files.
func (f *superviseFlags) config(cmd *cobra.Command, cfg *supervise.Config) (etcd cluster.Config, err error) {
	if f.etcd.address == "" {
		return etcd, errEmptyEtcd
	}
	if err := checkTTL(f.ttl); err != nil {
		return etcd, err
	}
	if cmd.Flags().Changed("stop-timeout") && (f.stop <= 0 || f.stop > f.ttl/2) {
		return etcd, fmt.Errorf("--stop-timeout %v: it must fit in before the deadline, so give more than 0 and at most "+
			"half of --ttl, %v", f.stop, f.ttl/2)
	}
	if cmd.Flags().Changed("grace") && f.gracePeriod <= 0 {
		return etcd, fmt.Errorf("--grace %v: give more than 0; leave it out to wait for COMMAND as long as it takes",
			f.gracePeriod)
	}
	level, err := parseLevel(f.logLevel)
	if err != nil {
		return etcd, err
	}
	log := logqueue.New(hclog.New(&hclog.LoggerOptions{Name: cmd.Root().Name(), Level: level,
		Output: cmd.ErrOrStderr()}))
	etcd.Logger = log
	if err := f.etcd.applySettings(&etcd); err != nil {
		return etcd, err
	}
	if err := f.etcd.nameFlag(etcd.Validate()); err != nil {
		return etcd, err
	}
	if cfg.Keys, err = state.NewKeys(f.etcd.prefix); err != nil {
		return etcd, f.etcd.nameFlag(err)
	}
	argument, what := "--election", "election"
	if cfg.Lock != "" {
		argument, what = "NAME", "lock"
	}
	if err := state.CheckName(what, cmp.Or(cfg.Election, cfg.Lock)); err != nil {
		return etcd, fmt.Errorf("%s: %w", argument, err)
	}
	cfg.Logger, cfg.TTL, cfg.Stop, cfg.GracePeriod, cfg.Cgroup = log, f.ttl, f.stop, f.gracePeriod, f.cgroup
	cfg.Env = f.commandEnv()
	cfg.Guard, cfg.GuardEnv = f.guardCommand()
	return etcd, nil
}

// commandEnv returns this process's environment, with the address of etcd for a nested goversed.
func (f *superviseFlags) commandEnv() []string {
	return append(os.Environ(), "GOVERSE_ETCD="+f.etcd.address, "GOVERSE_PREFIX="+f.etcd.prefix)
}

// guardCommand returns the command line and environment of the guard, with the settings to reach etcd. They include
// those that are empty or false, because the variables in the environment would replace them.
func (f *superviseFlags) guardCommand() (args, env []string) {
	e := f.etcd
	args = []string{guardName, "--etcd=" + e.address, "--prefix=" + e.prefix, "--etcd-user=" + e.user,
		"--etcd-password-file=" + e.passwordFile, "--etcd-cacert=" + e.caCert, "--etcd-cert=" + e.cert,
		"--etcd-key=" + e.key, fmt.Sprintf("--etcd-fixed=%t", e.fixed)}
	return args, append(os.Environ(), cli.EnvName("etcd-password")+"="+e.password) // the last definition counts
}

// guardName is the hidden verb that exec and lock run beside the command.
const guardName = "guard"

func newGuard() *cobra.Command {
	var etcd etcdFlags
	cmd := &cobra.Command{
		Use:    guardName,
		Short:  "What exec and lock run beside a command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return supervise.Guard(supervise.Free(func(ctx context.Context, lease int64) error {
				var cfg cluster.Config
				release, err := etcd.apply(&cfg)
				if err != nil {
					return err
				}
				defer release()
				client, err := operator.Etcd(cfg).Connect(ctx)
				if err != nil {
					return err
				}
				defer client.Close() // everything that matters was answered
				if _, err = client.Revoke(ctx, clientv3.LeaseID(lease)); errors.Is(err, rpctypes.ErrLeaseNotFound) {
					return nil // the lease has expired
				}
				return err
			}))
		},
	}
	etcd.register(cmd.Flags(), "", "etcd's `host:port`")
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

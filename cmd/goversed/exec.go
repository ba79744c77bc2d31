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
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, "TTL of the session in etcd, in whole seconds: the others wait that "+
		"long for a host that vanished")
	fs.DurationVar(&f.stop, "stop-timeout", 0, "time between SIGTERM and SIGKILL when the leadership or the lock is "+
		"lost; at most half of --ttl (default: a quarter of --ttl)")
	fs.DurationVar(&f.gracePeriod, "grace", 0, "time that COMMAND has to end after a SIGINT or SIGTERM to goversed, "+
		"before SIGKILL (default: no limit)")
	fs.BoolVar(&f.cgroup, "cgroup", false, "run COMMAND in a cgroup of its own, to end all its descendants "+
		"(Linux, cgroup v2)")
	fs.StringVar(&f.logLevel, "log-level", logLevel, logLevelUsage)
}

// guardedHelp is the part of the help that exec and lock share.
const guardedHelp = `
COMMAND runs in a process group of its own. goversed ends that group, with SIGTERM and then SIGKILL,
before another process can lead the election or hold the lock. This holds if etcd does not confirm
the session in time, and also if goversed is killed or paused, because a small second process,
goversed guard, watches it. Processes that COMMAND leaves behind in its group are ended before the
election or the lock is released. Descendants that left the group (setsid, daemons) are ended only
with --cgroup. If goversed and its guard are killed at the same moment, the children of COMMAND keep
running.

goversed passes its signals on to the group. After the first SIGINT or SIGTERM it waits for COMMAND
to end, releases the election or the lock, and does not run COMMAND again. If COMMAND still runs
after 2 seconds, the log reports that. A second signal, half a second later or more, kills the group
with SIGKILL immediately, and so does the end of --grace. At a terminal COMMAND gets Ctrl-C directly;
in a pipe, goversed passes it on. Ctrl-Z does not stop COMMAND.

While etcd cannot be reached, goversed waits for it and logs that. goversed exits with 125 if etcd
refuses the user, the password, a right or a certificate at the start. It does so too if a password
or certificate file cannot be used, or a certificate has expired. These files are read again when
they change. If a changed file cannot be used, COMMAND keeps running while the session is valid.

COMMAND has the environment of goversed, and these variables:

  GOVERSE_ELECTION   the election's name, or GOVERSE_LOCK with the lock's name
  GOVERSE_ETCD       the addresses of etcd
  GOVERSE_PREFIX     the prefix of the cluster's keys in etcd
  GOVERSE_TOKEN      a number that is larger than the token of every earlier holder
  GOVERSE_KEY        the holder's key in etcd; its create revision is the token
  GOVERSE_KEYS       the keys of all enclosing goversed exec and lock, for a nested goversed

A store should refuse a token that is smaller than one it has seen before. In etcd, write on the
condition that GOVERSE_KEY has GOVERSE_TOKEN as its create revision. Such a write fails once this
process is no longer the holder:

  printf 'create("%s") = "%s"\n\nput pos 42\n\n\n' "$GOVERSE_KEY" "$GOVERSE_TOKEN" |
    etcdctl --endpoints "$GOVERSE_ETCD" txn | grep -q SUCCESS

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
125 goversed failed or etcd refused it, 126 COMMAND cannot be run, 127 COMMAND does not exist,
2 the command line is wrong.`,
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
		Short:  "Watch a command for exec and lock",
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
	etcd.register(cmd.Flags(), "", etcdUsage)
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

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// superviseFlags holds the flags that exec and lock share.
type superviseFlags struct {
	etcd                   etcdFlags
	postgres               postgresFlags
	inPostgres             bool // set by config
	ttl, stop, gracePeriod time.Duration
	cgroup                 bool
	logLevel               string
}

func (f *superviseFlags) register(cmd *cobra.Command, logLevel string) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.etcd.register(fs, defaultEtcd, etcdUsage)
	f.postgres.register(fs, "that keeps the election or lock")
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, "TTL of the session in etcd, in whole seconds: the others wait that "+
		"long for a host that vanished; in PostgreSQL the deadline, 3s by default")
	fs.DurationVar(&f.stop, "stop-timeout", 0, "time between SIGTERM and SIGKILL when the leadership or the lock is "+
		"lost; at most half of --ttl (default: a quarter of --ttl)")
	fs.DurationVar(&f.gracePeriod, "grace", 0, "time that COMMAND has to end after a SIGINT or SIGTERM to goversed, "+
		"before SIGKILL (default: no limit)")
	fs.BoolVar(&f.cgroup, "cgroup", false, "run COMMAND in a cgroup of its own, to end all its descendants "+
		"(Linux, cgroup v2)")
	fs.StringVar(&f.logLevel, "log-level", logLevel, logLevelUsage)
}

// superviseCommand executes the command line. Cfg has the settings of the particular verb.
func (f *superviseFlags) superviseCommand(cmd *cobra.Command, cfg supervise.Config) error {
	etcd, err := f.config(cmd, &cfg)
	if _, unusable := errors.AsType[*cli.ExitCodeError](err); unusable {
		return err
	}
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	if !f.inPostgres {
		release, err := f.etcd.openFiles(&etcd)
		if err != nil {
			return &cli.ExitCodeError{Code: supervise.ExitFailed, Err: err}
		}
		defer release()
		defer onHangup(func() { f.etcd.reloadFiles(etcd.Logger) })() // the command gets SIGHUP, too
		cfg.Etcd = operator.Etcd(etcd)
	}
	signals := make(chan os.Signal, 16)
	if caught := supervise.Signals(); len(caught) > 0 { // Notify without signals would catch all
		signal.Notify(signals, caught...)
		defer signal.Stop(signals)
	}
	return supervise.Run(cfg, signals)
}

// config reads the flags, but not the files, except those that the URL of PostgreSQL names. An error about such a file
// is a cli.ExitCodeError.
func (f *superviseFlags) config(cmd *cobra.Command, cfg *supervise.Config) (etcd cluster.Config, err error) {
	if f.inPostgres, err = f.postgres.used(cmd); err != nil {
		return etcd, err
	}
	switch {
	case f.inPostgres && !cmd.Flags().Changed("ttl"):
		f.ttl = pgsession.DefaultDeadline
	case f.inPostgres && (f.ttl < supervise.MinPostgresTTL || f.ttl > pgsession.MaxDeadline):
		return etcd, fmt.Errorf("--ttl %v: give from %v to %v in PostgreSQL; leave it out for %v", f.ttl,
			supervise.MinPostgresTTL, pgsession.MaxDeadline, pgsession.DefaultDeadline)
	case f.inPostgres:
	case f.etcd.address == "":
		return etcd, errEmptyEtcd
	default:
		if err := checkTTL(f.ttl); err != nil {
			return etcd, err
		}
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
	if f.inPostgres {
		var unreadable bool
		cfg.Postgres, unreadable, err = f.postgres.session()
		switch {
		case unreadable:
			return etcd, &cli.ExitCodeError{Code: supervise.ExitFailed, Err: err}
		case err != nil:
			return etcd, err
		}
	} else if err := f.etcdConfig(cfg, &etcd, log); err != nil {
		return etcd, err
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

// etcdConfig is the part of config for etcd.
func (f *superviseFlags) etcdConfig(cfg *supervise.Config, etcd *cluster.Config, log hclog.Logger) (err error) {
	etcd.Logger = log
	if err := f.etcd.applySettings(etcd); err != nil {
		return err
	}
	if err := f.etcd.nameFlag(etcd.Validate()); err != nil {
		return err
	}
	cfg.Keys, err = state.NewKeys(f.etcd.prefix)
	return f.etcd.nameFlag(err)
}

// commandEnv returns this process's environment, with the address of etcd or PostgreSQL for a nested goversed. The
// variable of the other one is set to nothing, because a nested goversed does not choose between two.
func (f *superviseFlags) commandEnv() []string {
	env := os.Environ()
	variable := os.Getenv(cli.EnvName("postgres"))
	at := f.postgres.withoutPassword() // a URL with a password is passed on only as a variable
	switch {
	case !f.inPostgres:
		if f.postgres.url != "" { // --etcd has outweighed the variable or the file
			env = append(env, cli.EnvName("postgres")+"=")
		}
		return append(env, cli.EnvName("etcd")+"="+f.etcd.address, cli.EnvName("prefix")+"="+f.etcd.prefix)
	case at != "":
		env = append(env, cli.EnvName("postgres")+"="+at)
	case variable != "" && variable != f.postgres.url: // --postgres has outweighed it
		env = append(env, cli.EnvName("postgres")+"=")
	}
	if os.Getenv(cli.EnvName("etcd")) != "" && (at != "" || variable == f.postgres.url) {
		env = append(env, cli.EnvName("etcd")+"=")
	}
	return append(env, cli.EnvName("schema")+"="+f.postgres.schema)
}

// guardCommand returns the command line and environment of the guard, with the settings to reach etcd or PostgreSQL.
// They include those that are empty or false, because the variables in the environment would replace them.
func (f *superviseFlags) guardCommand() (args, env []string) {
	e := f.etcd
	args = []string{guardName, "--etcd=" + e.address, "--prefix=" + e.prefix, "--etcd-user=" + e.user,
		"--etcd-password-file=" + e.passwordFile, "--etcd-cacert=" + e.caCert, "--etcd-cert=" + e.cert,
		"--etcd-key=" + e.key, fmt.Sprintf("--etcd-fixed=%t", e.fixed), "--schema=" + f.postgres.schema}
	at := ""
	if f.inPostgres {
		at = f.postgres.url
	}
	return args, append(os.Environ(), cli.EnvName("etcd-password")+"="+e.password,
		cli.EnvName("postgres")+"="+at) // the last definition counts; process lists show arguments
}

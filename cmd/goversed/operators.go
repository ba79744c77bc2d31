package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// outputUsage is the help of --output.
const outputUsage = "format of the output: text or json"

// operatorFlags holds the flags that all operator commands share.
type operatorFlags struct {
	etcd       etcdFlags
	postgres   postgresFlags // of those that also read PostgreSQL
	timeout    time.Duration
	timeoutSet bool // --timeout was given
	output     string
}

// action executes a command with a connection to a store. With json it prints JSON.
type action[C any] func(ctx context.Context, c C, out io.Writer, json bool) error

// operatorAction and postgresAction execute a command about a cluster in etcd, and in PostgreSQL.
type (
	operatorAction = action[*operator.Operator]
	postgresAction = action[*operator.Postgres]
)

// newOperator returns a command that accesses the cluster in etcd from outside.
func newOperator(cmd *cobra.Command, timeout time.Duration,
	prepare func(f *operatorFlags) (operatorAction, error)) *cobra.Command {
	f := &operatorFlags{}
	f.register(cmd, timeout, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.runEtcd(cmd, prepare) }
	return cmd
}

// newReader returns a command that reads a cluster in etcd or PostgreSQL.
func newReader(cmd *cobra.Command, timeout time.Duration, prepare func(f *operatorFlags) (operatorAction, error),
	preparePostgres func(f *operatorFlags) (postgresAction, error)) *cobra.Command {
	f := &operatorFlags{}
	f.register(cmd, timeout, true)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		inPostgres, err := f.postgres.used(cmd)
		switch {
		case err != nil:
			return cli.WrapUsage(cmd.CommandPath(), err)
		case inPostgres:
			return f.runPostgres(cmd, preparePostgres)
		}
		return f.runEtcd(cmd, prepare)
	}
	return cmd
}

// register adds the flags to those of cmd.
func (f *operatorFlags) register(cmd *cobra.Command, timeout time.Duration, postgres bool) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.etcd.register(fs, defaultEtcd, etcdUsage)
	what := "etcd"
	if postgres {
		f.postgres.register(fs, "with the sessions of programs without etcd")
		what = "the answer"
	}
	fs.DurationVar(&f.timeout, "timeout", timeout, "longest wait for "+what+" and for the outcome")
	fs.StringVarP(&f.output, "output", "o", "text", outputUsage)
}

// runEtcd executes a command about a cluster in etcd.
func (f *operatorFlags) runEtcd(cmd *cobra.Command, prepare func(f *operatorFlags) (operatorAction, error)) error {
	cfg, release, err := f.config(cmd)
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	defer release()
	f.timeoutSet = cmd.Flags().Changed("timeout")
	do, err := prepare(f)
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	ctx, _, ignore := withSignals(cmd.Context())
	defer ignore()
	notice := &waitNotice{out: cmd.ErrOrStderr(), program: cmd.Root().Name(), etcd: f.etcd.address}
	o, err := operator.Open(ctx, cfg, f.timeout, operator.OnWait(notice.show))
	if err != nil {
		return interruptedError(ctx, err)
	}
	return errors.Join(interruptedError(ctx, do(ctx, o, cmd.OutOrStdout(), f.output == "json")), o.Close())
}

// runPostgres executes a command about a cluster in PostgreSQL.
func (f *operatorFlags) runPostgres(cmd *cobra.Command,
	prepare func(f *operatorFlags) (postgresAction, error)) error {
	if err := f.check(); err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	f.timeoutSet = cmd.Flags().Changed("timeout")
	do, err := prepare(f)
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	ctx, _, ignore := withSignals(cmd.Context())
	defer ignore()
	p, err := operator.OpenPostgres(ctx, f.postgres.url, f.postgres.schema)
	if err != nil {
		return err
	}
	return errors.Join(interruptedError(ctx, do(ctx, p, cmd.OutOrStdout(), f.output == "json")), p.Close())
}

// interruptedError rewrites the error of a verb that failed because a signal ended ctx.
func interruptedError(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(err, leaderelection.ErrNotMoved):
		return errors.New("interrupted; no request is left behind")
	case errors.Is(err, operator.ErrNotEmpty), errors.Is(err, operator.ErrNotConfirmed),
		errors.Is(err, processor.ErrNotAcknowledged):
		return fmt.Errorf("interrupted: %w", err)
	}
	return errors.New("interrupted")
}

// check checks the flags that do not concern etcd.
func (f *operatorFlags) check() error {
	switch {
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v: give more than 0; 5s is a good one", f.timeout)
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output %q: give text or json", f.output)
	}
	return nil
}

// config reads the flags. The caller must call release in the end. Warnings go to the standard error of cmd.
func (f *operatorFlags) config(cmd *cobra.Command) (cfg cluster.Config, release func(), err error) {
	if err := f.check(); err != nil {
		return cfg, nil, err
	}
	if f.etcd.address == "" {
		return cfg, nil, errEmptyEtcd
	}
	log := logqueue.New(hclog.New(&hclog.LoggerOptions{Name: cmd.Root().Name(), Level: hclog.Warn,
		Output: cmd.ErrOrStderr(), DisableTime: true}))
	cfg.Logger = log
	free, err := f.etcd.apply(&cfg)
	if err != nil {
		return cfg, nil, err
	}
	release = func() {
		free()
		logqueue.Flush(context.Background(), log)
	}
	if err := f.etcd.nameFlag(cfg.Validate()); err != nil {
		release()
		return cfg, nil, err
	}
	return cfg, release, nil
}

// showResult returns a verb that shows the result of get.
func showResult[C, T any](get func(ctx context.Context, c C) (T, error),
	show func(out io.Writer, what T, json bool) error) action[C] {
	return func(ctx context.Context, c C, out io.Writer, json bool) error {
		what, err := get(ctx, c)
		if err != nil {
			return err
		}
		return show(out, what, json)
	}
}

// showRead is like showResult, with the --timeout for get.
func showRead[C, T any](f *operatorFlags, get func(ctx context.Context, c C) (T, error),
	show func(out io.Writer, what T, json bool) error) action[C] {
	return showResult(func(ctx context.Context, c C) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		return get(ctx, c)
	}, show)
}

// showList is like showResult, for a get that may need many requests. Get limits each of them; a --timeout on the
// command line limits all of them.
func showList[C, T any](f *operatorFlags, get func(ctx context.Context, c C) (T, error),
	show func(out io.Writer, what T, json bool) error) action[C] {
	if f.timeoutSet {
		return showRead(f, get, show)
	}
	return showResult(get, show)
}

// newDetails returns a command that shows the result of one read of the cluster.
func newDetails(base *cobra.Command, show func(out io.Writer, d operator.Details, json bool) error) *cobra.Command {
	var election string
	cmd := newReader(base, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		read := func(ctx context.Context, o *operator.Operator) (operator.Details, error) { return o.Read(ctx) }
		return showRead(f, read, show), nil
	}, func(f *operatorFlags) (postgresAction, error) {
		read := func(ctx context.Context, p *operator.Postgres) (operator.Details, error) {
			return p.Read(ctx, election)
		}
		return showRead(f, read, show), nil
	})
	cmd.Flags().StringVar(&election, "node-election", pgnode.DefaultElection, "with --postgres: `name` of the election "+
		"that the nodes stand in")
	return cmd
}

func newStatus() *cobra.Command {
	return newDetails(&cobra.Command{
		Use:   "status",
		Short: "Show the leader, the queue and the nodes",
		Long: `Show the leader with its token, the queue of candidates, and the registered nodes with their
records. Everything is from one revision of etcd, or from one instant in PostgreSQL, which also has
the lease. The exit code is 0 even if no node leads; use goversed leader for an exit code of 1 in that
case.`,
		Example: `  goversed status
  goversed status --etcd 127.0.0.1:2379 --prefix /goverse -o json
  GOVERSE_POSTGRES=postgres://host/db goversed status`,
	}, operator.PrintStatus)
}

func newLeader() *cobra.Command {
	return newDetails(&cobra.Command{
		Use:   "leader",
		Short: "Print the leader's address",
		Long: "Print only the leader's address, or with -o json everything known about the leader. The exit code\n" +
			"is 1 if no node leads.",
		Example: `  goversed leader
  curl "$(goversed leader -o json | jq -r .http_address)/cluster/leader"`,
	}, operator.PrintLeader)
}

func newNodes() *cobra.Command {
	return newDetails(&cobra.Command{
		Use:   "nodes",
		Short: "List the registered nodes",
		Long: `List the registered nodes by address: the state of each node in the election, its place in the
queue, and its record with host, HTTP address and version.`,
		Example: "  goversed nodes\n  goversed nodes -o json | jq -r '.items[].address'",
	}, operator.PrintNodes)
}

func newWatch() *cobra.Command {
	return newOperator(&cobra.Command{
		Use:   "watch",
		Short: "Print a line at every change of the leader, the queue or the nodes",
		Long: `Print the leader, the queue and the nodes, and print them again at every change, until
interrupted. Each time that is one line, or one object with -o json. --timeout limits only the
wait for the first answer.`,
		Example: "  goversed watch\n  goversed watch -o json | jq -c '[.leader_id, .token]'",
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		return func(ctx context.Context, o *operator.Operator, out io.Writer, json bool) error {
			return o.Watch(ctx, f.timeout, func(v operator.View) error { return operator.PrintChange(out, time.Now(), v, json) })
		}, nil
	})
}

func newResign() *cobra.Command {
	return newOperator(&cobra.Command{
		Use:   "resign",
		Short: "Ask the leader to resign",
		Long: `Ask the leader to resign, and wait until the next node in the queue leads. The former leader
queues again at the tail. If no other node is queued, it leads again, with a new token.`,
		Example: "  goversed resign\n  goversed resign --timeout 30s -o json",
	}, 15*time.Second, func(f *operatorFlags) (operatorAction, error) {
		return showResult(func(ctx context.Context, o *operator.Operator) (operator.Outcome, error) {
			return o.Resign(ctx, f.timeout)
		}, operator.PrintOutcome), nil
	})
}

func newTransfer() *cobra.Command {
	var to string
	cmd := newOperator(&cobra.Command{
		Use:   "transfer --to ADDRESS",
		Short: "Transfer leadership to a node",
		Long: `Ask for a transfer of leadership to the node at --to, and wait until that node leads. Give the
node's own address, as goversed nodes shows it.`,
		Example: "  goversed transfer --to 127.0.0.1:47002",
		Args: func(cmd *cobra.Command, args []string) error {
			if to == "" && len(args) == 1 { // the syntax of goversed elections transfer
				return unexpectedWordError(cmd, args[0], "write --to "+args[0])
			}
			return rejectArgs(cmd, args)
		},
	}, 15*time.Second, func(f *operatorFlags) (operatorAction, error) {
		if to == "" {
			return nil, errors.New("--to is missing: give the address of a node; goversed nodes shows them")
		}
		return showResult(func(ctx context.Context, o *operator.Operator) (operator.Outcome, error) {
			return o.Transfer(ctx, f.timeout, to)
		}, operator.PrintOutcome), nil
	})
	cmd.Flags().StringVar(&to, "to", "", "`address` of the node that takes over leadership")
	return cmd
}

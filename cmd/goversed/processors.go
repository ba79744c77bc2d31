package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newProcessors() *cobra.Command {
	cmd := newProcessorsList(&cobra.Command{
		Use:   "processors",
		Short: "List the processors, or pause, resume, rewind or retry",
		Long: `List the processors of the whole cluster with their checkpoints, and what their leaders report: lag,
events per second, attempts at the next event, last error. With --postgres the checkpoints are
those in a table of PostgreSQL, otherwise those in etcd.

A report stays when its leader is killed: REPORTED is its time, by the leader's clock. The state is
leading, failing (the next event has failed), replaying (after a rewind), paused, pausing (no leader
has acknowledged the request yet), ended (no process leads), or unknown (no report of the process
that leads now).
` + listHelp,
		Example: `  goversed processors
  GOVERSE_POSTGRES=postgres://host/db goversed processors list --name-prefix views/
  goversed processors pause views --reason 'migration of the database'
  goversed processors parked views -o json | jq -r '.items[].position'`,
	})
	cmd.AddCommand(
		newProcessorsList(&cobra.Command{Use: "list", Short: "List the processors; the same as goversed processors",
			Long: cmd.Long, Example: cmd.Example}),
		newProcessorsPause(), newProcessorsResume(), newProcessorsRewind(), newProcessorsReset(), newProcessorsParked(),
		newProcessorsRetry(), newProcessorsDrop(), newProcessorsUnfence())
	return cmd
}

// processorsFlags holds the flags of the commands about processors.
type processorsFlags struct {
	operatorFlags
	postgres, table string
}

// processorsAction executes a command about processors. With json it prints JSON.
type processorsAction func(ctx context.Context, p *operator.Processors, out io.Writer, json bool) error

// newProcessorsCommand returns a command that accesses the checkpoints in etcd or PostgreSQL.
func newProcessorsCommand(cmd *cobra.Command, timeout time.Duration,
	prepare func(f *processorsFlags, args []string) (processorsAction, error)) *cobra.Command {
	f := &processorsFlags{}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.etcd.register(fs, defaultEtcd, etcdUsage)
	fs.StringVar(&f.postgres, "postgres", "", "`URL` of the PostgreSQL with the checkpoints, instead of etcd; prefer the "+
		"variable if it has a password")
	fs.StringVar(&f.table, "table", "goverse_checkpoints", "with --postgres: `table` of the checkpoints")
	fs.DurationVar(&f.timeout, "timeout", timeout, "longest wait for the store and for the outcome")
	fs.StringVarP(&f.output, "output", "o", "text", outputUsage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		do, err := prepare(f, args)
		if err != nil {
			return cli.WrapUsage(cmd.CommandPath(), err)
		}
		cfg, release, err := f.config(cmd)
		if err != nil {
			return cli.WrapUsage(cmd.CommandPath(), err)
		}
		defer release()
		if f.postgres == "" && cmd.Flags().Changed("table") {
			return cli.WrapUsage(cmd.CommandPath(), errors.New("--table is of PostgreSQL: give --postgres, too"))
		}
		f.timeoutSet = cmd.Flags().Changed("timeout")
		ctx, _, ignore := withSignals(cmd.Context())
		defer ignore()
		var p *operator.Processors
		if f.postgres != "" {
			p, err = operator.OpenPostgres(ctx, f.postgres, f.table)
		} else {
			notice := &waitNotice{out: cmd.ErrOrStderr(), program: cmd.Root().Name(), etcd: f.etcd.address}
			var o *operator.Operator
			if o, err = operator.Open(ctx, cfg, f.timeout, operator.OnWait(notice.show)); err == nil {
				p, err = o.Processors(f.timeout)
			}
		}
		if err != nil {
			return interruptedError(ctx, err)
		}
		return errors.Join(interruptedError(ctx, do(ctx, p, cmd.OutOrStdout(), f.output == "json")), p.Close())
	}
	return cmd
}

func newProcessorsList(base *cobra.Command) *cobra.Command {
	var q operator.ListQuery
	cmd := newProcessorsCommand(base, listTimeout, func(f *processorsFlags, _ []string) (processorsAction, error) {
		query, err := q, error(nil)
		switch {
		case q.Limit < 0:
			return nil, fmt.Errorf("--limit %d: give a number from 1 up, or 0 for all", q.Limit)
		case q.After != "":
			if query.After, err = parseName("processor", "--after", q.After); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, p *operator.Processors, out io.Writer, json bool) error {
			if f.timeoutSet {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, f.timeout)
				defer cancel()
			}
			all, err := p.List(ctx, f.timeout, query)
			if err != nil {
				return err
			}
			return operator.PrintProcessors(out, p.Where(), all, json)
		}, nil
	})
	registerList(cmd.Flags(), &q)
	return cmd
}

// newProcessorRequest returns a command that makes a request about the processor NAME and prints the processor.
func newProcessorRequest(base *cobra.Command,
	request func(ctx context.Context, m processor.Manager, name string, at processor.Position) error,
	names ...string) *cobra.Command {
	base.Args = requireArgs("goversed processors shows names and positions", "one processor at a time", names...)
	return newProcessorsCommand(base, 30*time.Second, func(f *processorsFlags, args []string) (processorsAction, error) {
		name, err := parseName("processor", "NAME", args[0])
		if err != nil {
			return nil, err
		}
		at := ""
		if len(args) > 1 {
			if at, err = parseWord("POSITION", args[1], "goversed processors"); err != nil {
				return nil, err
			}
			if at == "" {
				return nil, errors.New("POSITION is empty: goversed processors reset NAME goes back to the beginning")
			}
		}
		return func(ctx context.Context, p *operator.Processors, out io.Writer, json bool) error {
			ctx, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			s, err := p.Change(ctx, name, func(ctx context.Context, m processor.Manager) error {
				return request(ctx, m, name, processor.Position(at))
			})
			if err != nil {
				return err
			}
			return operator.PrintProcessor(out, s, json)
		}, nil
	})
}

// operatorName returns the name under which requests are recorded.
func operatorName() string {
	name := "unknown user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

func newProcessorsPause() *cobra.Command {
	var reason string
	cmd := newProcessorRequest(&cobra.Command{
		Use:   "pause NAME",
		Short: "Pause a processor in the whole cluster",
		Long: `Pause the processor NAME, until goversed processors resume. The pause is stored beside the checkpoint,
so that it lasts whichever process leads. The command waits until the leader has stored the event
that it is handling and has acknowledged the pause, or until no process leads; from then on no event
is handled. The leader notices with its next batch, and when it is idle within its CheckInterval
(5 s by default).

If --timeout passes first, the command fails and the request stays: its leader may have been killed,
and then no event is handled until the next leader follows the request.`,
		Example: "  goversed processors pause views --reason 'migration of the database'",
	}, func(ctx context.Context, m processor.Manager, name string, _ processor.Position) error {
		return processor.Pause(ctx, m, name, processor.PauseRequest{Reason: reason, By: operatorName()})
	}, "NAME")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that goversed processors shows while it is paused")
	return cmd
}

func newProcessorsResume() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume a paused processor",
		Long:    "Resume the processor NAME. It does not wait for the leader.",
		Example: "  goversed processors resume views",
	}, func(ctx context.Context, m processor.Manager, name string, _ processor.Position) error {
		return processor.Resume(ctx, m, name, processor.PauseRequest{By: operatorName()})
	}, "NAME")
}

func newProcessorsRewind() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:   "rewind NAME POSITION",
		Short: "Have a processor continue after another position",
		Long: `Have the processor NAME continue after POSITION, which may be before or after its present position.
A batch in flight is stored before, or refused. With checkpoints in PostgreSQL a refused batch has
no effect; with checkpoints in etcd its events may have been handled: pause the processor first if
that matters. After a rewind, parked events that are handled again are parked no longer.`,
		Example: "  goversed processors rewind views 1204/17",
	}, func(ctx context.Context, m processor.Manager, name string, at processor.Position) error {
		return m.Rewind(ctx, name, at)
	}, "NAME", "POSITION")
}

func newProcessorsReset() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:   "reset NAME",
		Short: "Have a processor handle all events again",
		Long: `Have the processor NAME continue at the beginning, so that it handles all events of its source again.
Otherwise it is like goversed processors rewind.`,
		Example: "  goversed processors reset views",
	}, func(ctx context.Context, m processor.Manager, name string, _ processor.Position) error {
		return m.Rewind(ctx, name, "")
	}, "NAME")
}

func newProcessorsParked() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "parked NAME",
		Short:   "List the events that a processor has given up",
		Example: "  goversed processors parked views",
		Args:    requireArgs("goversed processors shows names", "one processor at a time", "NAME"),
	}
	return newProcessorsCommand(cmd, 15*time.Second, func(f *processorsFlags, args []string) (processorsAction, error) {
		name, err := parseName("processor", "NAME", args[0])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, p *operator.Processors, out io.Writer, json bool) error {
			ctx, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			all, err := p.Parked(ctx, name)
			if err != nil {
				return err
			}
			return operator.PrintParked(out, all, json)
		}, nil
	})
}

func newProcessorsRetry() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:   "retry NAME POSITION",
		Short: "Have a parked event handled again",
		Long: `Have the leader of the processor NAME handle the event parked at POSITION again, and wait until it has.
The command fails if the event fails; it then stays parked, with the new error. If --timeout passes
first, the request stays: no process may lead, or the processor is paused.`,
		Example: "  goversed processors retry views 1204/17",
	}, processor.Retry, "NAME", "POSITION")
}

func newProcessorsDrop() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:     "drop NAME POSITION",
		Short:   "Remove the record of a parked event",
		Long:    "Remove the record of the event parked at POSITION. The event is not handled any more.",
		Example: "  goversed processors drop views 1204/17",
	}, func(ctx context.Context, m processor.Manager, name string, at processor.Position) error {
		return m.Forget(ctx, name, at)
	}, "NAME", "POSITION")
}

func newProcessorsUnfence() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:   "unfence NAME",
		Short: "Let any token claim a processor's checkpoint",
		Long: `Let any token claim the checkpoint of the processor NAME, which stays where it is. It is for tokens that
have started again: with another lock, or with an etcd without its data. First make sure that no
process with an old token is still running.`,
		Example: "  goversed processors unfence views",
	}, func(ctx context.Context, m processor.Manager, name string, _ processor.Position) error {
		return m.Unfence(ctx, name)
	}, "NAME")
}

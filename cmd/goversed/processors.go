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

	"github.com/goverse/goverse/cluster"
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

Requests are recorded in the event log, with the operator and --reason, after they were carried out;
goversed events --types processor_paused,processor_rewound shows them. If that fails, they count
all the same.
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
	table string
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
	f.postgres.registerURL(fs, "with the checkpoints")
	fs.StringVar(&f.table, "table", "goverse_checkpoints", "with --postgres: `table` of the checkpoints")
	fs.DurationVar(&f.timeout, "timeout", timeout, "longest wait for the store and for the outcome")
	fs.StringVarP(&f.output, "output", "o", "text", outputUsage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		do, err := prepare(f, args)
		if err != nil {
			return cli.WrapUsage(cmd.CommandPath(), err)
		}
		inPostgres, err := f.postgres.used(cmd)
		if err == nil {
			err = f.check()
		}
		if err != nil {
			return cli.WrapUsage(cmd.CommandPath(), err)
		}
		f.timeoutSet = cmd.Flags().Changed("timeout")
		ctx, _, ignore := withSignals(cmd.Context())
		defer ignore()
		var p *operator.Processors
		if inPostgres {
			p, err = operator.OpenPostgresProcessors(ctx, f.postgres.url, f.table)
		} else {
			cfg, release, badConfig := f.config(cmd)
			if badConfig != nil {
				return cli.WrapUsage(cmd.CommandPath(), badConfig)
			}
			defer release()
			p, err = f.openProcessors(ctx, cmd, cfg)
		}
		if err != nil {
			return interruptedError(ctx, err)
		}
		return errors.Join(interruptedError(ctx, do(ctx, p, cmd.OutOrStdout(), f.output == "json")), p.Close())
	}
	return cmd
}

// openProcessors returns the processors with checkpoints in etcd.
func (f *processorsFlags) openProcessors(ctx context.Context, cmd *cobra.Command, cfg cluster.Config) (
	*operator.Processors, error) {
	notice := &waitNotice{out: cmd.ErrOrStderr(), program: cmd.Root().Name(), etcd: f.etcd.address}
	o, err := operator.Open(ctx, cfg, f.timeout, operator.OnWait(notice.show))
	if err != nil {
		return nil, err
	}
	p, err := o.Processors(f.timeout)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return p, nil
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

// processorRequest is a request about the processor name, or about its event parked at a position.
type processorRequest struct {
	name string
	at   processor.Position
	by   processor.Operator
}

// newProcessorRequest returns a command that makes a request about the processor NAME and prints the processor.
func newProcessorRequest(base *cobra.Command,
	request func(ctx context.Context, m processor.Manager, r processorRequest) error,
	names ...string) *cobra.Command {
	var reason string
	base.Args = requireArgs("goversed processors shows names and positions", "one processor at a time", names...)
	cmd := newProcessorsCommand(base, 30*time.Second, func(f *processorsFlags, args []string) (processorsAction, error) {
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
			by := processor.Operator{By: operatorName(), Reason: reason}
			s, err := p.Change(processor.WithOperator(ctx, by), name, func(ctx context.Context, m processor.Manager) error {
				return request(ctx, m, processorRequest{name, processor.Position(at), by})
			})
			if err != nil {
				return err
			}
			return operator.PrintProcessor(out, s, json)
		}, nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", reasonUsage)
	return cmd
}

// reasonUsage is the help of --reason.
const reasonUsage = "`text` for the event log; of a pause, goversed processors shows it, too"

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
	return newProcessorRequest(&cobra.Command{
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
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return processor.Pause(ctx, m, r.name, processor.PauseRequest{Reason: r.by.Reason, By: r.by.By})
	}, "NAME")
}

func newProcessorsResume() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume a paused processor",
		Long:    "Resume the processor NAME. It does not wait for the leader.",
		Example: "  goversed processors resume views",
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return processor.Resume(ctx, m, r.name, processor.PauseRequest{Reason: r.by.Reason, By: r.by.By})
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
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return m.Rewind(ctx, r.name, r.at)
	}, "NAME", "POSITION")
}

func newProcessorsReset() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:   "reset NAME",
		Short: "Have a processor handle all events again",
		Long: `Have the processor NAME continue at the beginning, so that it handles all events of its source again.
Otherwise it is like goversed processors rewind.`,
		Example: "  goversed processors reset views",
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return m.Rewind(ctx, r.name, "")
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
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return processor.Retry(ctx, m, r.name, r.at)
	}, "NAME", "POSITION")
}

func newProcessorsDrop() *cobra.Command {
	return newProcessorRequest(&cobra.Command{
		Use:     "drop NAME POSITION",
		Short:   "Remove the record of a parked event",
		Long:    "Remove the record of the event parked at POSITION. The event is not handled any more.",
		Example: "  goversed processors drop views 1204/17",
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return m.Forget(ctx, r.name, r.at)
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
	}, func(ctx context.Context, m processor.Manager, r processorRequest) error {
		return m.Unfence(ctx, r.name)
	}, "NAME")
}

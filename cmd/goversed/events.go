package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newEvents() *cobra.Command {
	var since string
	var types []string
	var limit int
	var follow bool
	query := func() (q event.Query, err error) {
		if q.Since, err = parseSince(since, time.Now()); err == nil && limit < 0 {
			err = fmt.Errorf("--limit %d: give a number from 1 up, or 0 for all", limit)
		}
		q.Limit = limit
		for _, typ := range types {
			q.Types = append(q.Types, event.Type(typ))
		}
		return q, err
	}
	var cmd *cobra.Command
	cmd = newReader(&cobra.Command{
		Use:   "events",
		Short: "Show the event log: leaders, nodes, shards, sessions",
		Long: `Show the cluster's event log, oldest first. It has the elections and losses of leaders, the times
without a leader, the nodes that joined, left or were removed, the moves of shards, the requests of
operators about processors, and what the programs recorded, with types that begin with app_. Times
are by the clock of the process that recorded the event. With -o json each line is an object.
With --postgres the log is that of nodes in PostgreSQL, in the order of the times; new events follow
in the order in which they were recorded.

The nodes keep the newest thousand events for a week; half of them may be the programs'. With
--follow the command waits for etcd if that does not answer, and reports it on standard error; it
also waits for PostgreSQL.`,
		Example: `  goversed events --since 1h
  goversed events --since 2026-11-24T08:00:00Z
  goversed events --types node_lost,app_import_finished
  goversed events --follow -o json | jq -c 'select(.type == "leader_elected") | [.node, .seconds]'`,
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		q, err := query()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, o *operator.Operator, out io.Writer, json bool) error {
			skipped, err := o.Events(ctx, f.timeout, q, follow, func(e event.Event) error {
				return operator.PrintEvent(out, e, json)
			})
			if err == nil && skipped > 0 {
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d values below %s/events/ are not events and were skipped\n",
					skipped, f.etcd.prefix)
			}
			return err
		}, nil
	}, func(f *operatorFlags) (postgresAction, error) {
		q, err := query()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, p *operator.Postgres, out io.Writer, json bool) error {
			return p.Events(ctx, f.timeout, q, follow, func(e event.Event) error {
				return operator.PrintEvent(out, e, json)
			})
		}, nil
	})
	fs := cmd.Flags()
	fs.StringVar(&since, "since", "", "show only events since then: a `duration` before now, like 1h30m, or a time "+
		"like 2026-11-24T08:00:00Z")
	fs.StringSliceVar(&types, "types", nil, "show only events of these `types`, with commas between them")
	fs.IntVar(&limit, "limit", 0, "show only the newest `n` events; 0 means all")
	fs.BoolVarP(&follow, "follow", "f", false, "continue with new events until interrupted")
	return cmd
}

// parseSince parses --since. It returns the zero time if that is empty.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if back, err := time.ParseDuration(s); err == nil && back >= 0 {
		return now.Add(-back), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("--since %q: give how long ago, like 1h30m, or a time like 2026-11-24T08:00:00Z", s)
	}
	return at, nil
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newElections() *cobra.Command {
	kind := listedKind[operator.NamedElection]{noun: "election", read: (*operator.Operator).Elections,
		readPostgres: (*operator.Postgres).Elections, show: operator.PrintElections}
	cmd := kind.newList(&cobra.Command{
		Use:   "elections",
		Short: "List the named elections, or hand one over",
		Long: `List the named elections that have candidates, each with its leader, the leader's token, and the
next candidate in the queue. The cluster's own election is not in the list: goversed status shows
it. With --postgres the list has all elections that are held in PostgreSQL.
` + listHelp,
		Example: `  goversed elections
  goversed elections list --name-prefix billing/
  goversed elections -o json | jq '.items[] | [.name, .leader_id]'
  goversed elections transfer outbox 127.0.0.1:47002`,
	})
	cmd.AddCommand(kind.newListVerb(cmd), newElectionsTransfer(), newElectionsResign())
	return cmd
}

func newElectionsTransfer() *cobra.Command {
	return newElectionsAsk(&cobra.Command{
		Use:   "transfer NAME TO",
		Short: "Transfer the leadership of a named election to a candidate",
		Long: `Ask for a transfer of the election NAME to the candidate at the address TO, and wait until that
one leads. The candidates ahead of it move to the tail of the queue, and then the leader resigns.
goversed elections shows names and addresses. The command is refused if another candidate has a
higher priority.`,
		Example: "  goversed elections transfer outbox 127.0.0.1:47002",
	}, func(ctx context.Context, o *operator.Operator, timeout time.Duration, args []string) (operator.Outcome, error) {
		return o.TransferElection(ctx, timeout, args[0], args[1])
	}, "NAME", "TO")
}

func newElectionsResign() *cobra.Command {
	return newElectionsAsk(&cobra.Command{
		Use:   "resign NAME",
		Short: "Ask the leader of a named election to resign",
		Long: `Ask the leader of the election NAME to resign, and wait until a candidate leads with a new
token. If there is no other candidate, the same one leads again. If the former leader has the
highest priority, it takes the leadership back a few seconds later.`,
		Example: "  goversed elections resign outbox",
	}, func(ctx context.Context, o *operator.Operator, timeout time.Duration, args []string) (operator.Outcome, error) {
		return o.ResignElection(ctx, timeout, args[0])
	}, "NAME")
}

// newElectionsAsk returns a command that moves a named election, with the named arguments.
func newElectionsAsk(base *cobra.Command,
	ask func(context.Context, *operator.Operator, time.Duration, []string) (operator.Outcome, error),
	names ...string) *cobra.Command {
	base.Args = requireArgs("goversed elections shows names and addresses", "one election at a time", names...)
	var cmd *cobra.Command
	cmd = newOperator(base, 15*time.Second, func(f *operatorFlags) (operatorAction, error) {
		args := cmd.Flags().Args()
		name, err := parseName("election", "NAME", args[0])
		if err != nil {
			return nil, err
		}
		args = append([]string{name}, args[1:]...)
		if args[len(args)-1] == "" {
			return nil, errors.New("TO is empty: give the address of a candidate; goversed elections shows them")
		}
		return showResult(func(ctx context.Context, o *operator.Operator) (operator.Outcome, error) {
			return ask(ctx, o, f.timeout, args)
		}, operator.PrintOutcome), nil
	})
	return cmd
}

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
		show: operator.PrintElections}
	cmd := kind.newList(&cobra.Command{
		Use:   "elections",
		Short: "List the named elections, or move one",
		Long: `List the named elections that have candidates: the leader, by which token, and the next in
the queue. The cluster's own election is not among them: goversed status shows that one.
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
		Short: "Hand a named election over to a candidate",
		Long: `Ask for the election NAME to be led by the candidate at the address TO, and wait until it
is: those who wait before it let it pass, then the leader gives way. goversed elections
shows names and addresses. Refused where another candidate has a higher priority.`,
		Example: "  goversed elections transfer outbox 127.0.0.1:47002",
	}, func(ctx context.Context, o *operator.Operator, timeout time.Duration, args []string) (operator.Outcome, error) {
		return o.TransferElection(ctx, timeout, args[0], args[1])
	}, "NAME", "TO")
}

func newElectionsResign() *cobra.Command {
	return newElectionsAsk(&cobra.Command{
		Use:   "resign NAME",
		Short: "Ask the leader of a named election to give way to the next",
		Long: `Ask the leader of the election NAME to give way, and wait until somebody leads under a new
token: one that is alone follows itself, and one that is preferred leads again a few
seconds later.`,
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

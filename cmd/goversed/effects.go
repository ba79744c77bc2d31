package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newEffects() *cobra.Command {
	cmd := newEffectsList(&cobra.Command{
		Use:   "effects",
		Short: "List the effects that run at most once, or resolve one",
		Long: `List the effects, which are functions that run at most once in the cluster (Cluster.Once). Each
has a state: running, unknown, done or failed. The list also names the process of the last
attempt, and the time of the state by that process's clock. Effects that are done or failed are
deleted after the nodes' OnceRetention.

An effect is unknown if its attempt ended or lost its session before it stored the outcome. Record
the outcome with goversed effects resolve.
` + listHelp,
		Example: `  goversed effects --unknown
  goversed effects list --limit 100 --after mail/42
  goversed effects -o json | jq -r '.items[] | select(.state == "failed") | .name'
  goversed effects resolve mail/42 1234 --done`,
	})
	cmd.AddCommand(newEffectsList(&cobra.Command{Use: "list", Short: "List the effects; the same as goversed effects",
		Long: cmd.Long, Example: cmd.Example}), newEffectsShow(), newEffectsResolve())
	return cmd
}

func newEffectsList(base *cobra.Command) *cobra.Command {
	var unknown bool
	kind := listedKind[operator.Effect]{noun: "effect", show: operator.PrintEffects,
		read: func(o *operator.Operator, ctx context.Context, timeout time.Duration, q operator.ListQuery) (
			operator.List[operator.Effect], error) {
			return o.Effects(ctx, timeout, q, unknown)
		}}
	cmd := kind.newList(base)
	cmd.Flags().BoolVar(&unknown, "unknown", false, "list only effects with an unknown outcome")
	return cmd
}

func newEffectsShow() *cobra.Command {
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show the state of one effect, and the value that it returned",
		Example: "  goversed effects show mail/42\n  goversed effects show mail/42 -o json | jq -r .result | base64 -d",
		Args:    requireEffectArgs("NAME"),
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		name, err := parseName("effect", "NAME", cmd.Flags().Arg(0))
		if err != nil {
			return nil, err
		}
		return showRead(f, func(ctx context.Context, o *operator.Operator) (operator.Effect, error) {
			return o.Effect(ctx, name)
		}, operator.PrintEffect), nil
	})
	return cmd
}

func newEffectsResolve() *cobra.Command {
	var done, failed bool
	var result string
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:   "resolve NAME TOKEN (--done | --failed)",
		Short: "Record whether an effect with an unknown outcome took place",
		Long: `Record the outcome of the effect NAME, which is unknown. With --done the effect took place, and
does not run again. With --failed it did not take place, and the next attempt runs it again. Check
first whether it took place: goversed does not know that, and relies on your answer.

TOKEN is the token of the attempt that you checked, as goversed effects shows it. Nothing is
written if there was another attempt meanwhile, or if the effect was resolved meanwhile. The
command is refused while the attempt still runs and has a valid session.`,
		Example: `  goversed effects resolve mail/42 1234 --done --result 'message 7'
  goversed effects resolve mail/42 1234 --failed`,
		Args: requireEffectArgs("NAME", "TOKEN"),
	}, 15*time.Second, func(f *operatorFlags) (operatorAction, error) {
		name, err := parseName("effect", "NAME", cmd.Flags().Arg(0))
		if err != nil {
			return nil, err
		}
		token, err := strconv.ParseInt(cmd.Flags().Arg(1), 10, 64)
		switch {
		case err != nil || token < 1:
			return nil, fmt.Errorf("TOKEN %q: give the token of the attempt, as goversed effects shows it", cmd.Flags().Arg(1))
		case done == failed:
			return nil, errors.New("give the outcome: either --done or --failed")
		case failed && cmd.Flags().Changed("result"):
			return nil, errors.New("--result is only for an effect that took place: give it with --done")
		case len(result) > once.MaxValue:
			return nil, fmt.Errorf("--result has %d bytes: give %d at most", len(result), once.MaxValue)
		}
		return showResult(func(ctx context.Context, o *operator.Operator) (operator.Effect, error) {
			return o.Resolve(ctx, f.timeout, name, token, done, []byte(result))
		}, operator.PrintResolved), nil
	})
	fs := cmd.Flags()
	fs.BoolVar(&done, "done", false, "the effect took place")
	fs.BoolVar(&failed, "failed", false, "the effect did not take place, and may run again")
	fs.StringVar(&result, "result", "", "with --done: the `text` that the effect returned, for later callers")
	return cmd
}

// requireEffectArgs requires exactly the named arguments.
func requireEffectArgs(names ...string) cobra.PositionalArgs {
	return requireArgs("goversed effects shows names and tokens", "one effect at a time", names...)
}

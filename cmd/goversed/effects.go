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
		Long: `List the effects that run at most once (Cluster.Once) and how they stand: running, unknown,
done or failed, by whose attempt, and since when by that one's clock. What was done or failed is
forgotten after the nodes' OnceRetention. Unknown is what an attempt left open that has ended or
lost its session: goversed effects resolve says what is true.
` + listHelp,
		Example: `  goversed effects --unknown
  goversed effects list --limit 100 --after mail/42
  goversed effects -o json | jq -r '.items[] | select(.state == "failed") | .name'
  goversed effects resolve mail/42 1234 --done`,
	})
	cmd.AddCommand(newEffectsList(&cobra.Command{Use: "list", Short: "List the effects, as goversed effects does",
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
	cmd.Flags().BoolVar(&unknown, "unknown", false, "only those whose outcome is unknown")
	return cmd
}

func newEffectsShow() *cobra.Command {
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show how one effect stands, and what it returned",
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
		Short: "Say whether an effect took place whose outcome is unknown",
		Long: `Say what is true of the effect NAME, whose outcome is unknown: --done, it took place and is not
to be run again; or --failed, it did not, and the next one to try it runs it again. Look first
where the effect should have taken place: goversed does not know, and believes what is said here.

TOKEN is that of the attempt that was looked into, as goversed effects shows it. Nothing is written
if another attempt has been made meanwhile, or somebody else has resolved it; an attempt that
runs, with a session that lives, is refused.`,
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
			return nil, fmt.Errorf("TOKEN %q: give that of the attempt, as goversed effects shows it", cmd.Flags().Arg(1))
		case done == failed:
			return nil, errors.New("say what is true: either --done or --failed")
		case failed && cmd.Flags().Changed("result"):
			return nil, errors.New("--result is of an effect that took place: give it with --done")
		case len(result) > once.MaxValue:
			return nil, fmt.Errorf("--result has %d bytes: give %d at most", len(result), once.MaxValue)
		}
		return showResult(func(ctx context.Context, o *operator.Operator) (operator.Effect, error) {
			return o.Resolve(ctx, f.timeout, name, token, done, []byte(result))
		}, operator.PrintResolved), nil
	})
	fs := cmd.Flags()
	fs.BoolVar(&done, "done", false, "the effect took place")
	fs.BoolVar(&failed, "failed", false, "it did not, and may be run again")
	fs.StringVar(&result, "result", "", "with --done: the `text` that the effect returned, for those who ask")
	return cmd
}

// requireEffectArgs requires exactly the named arguments.
func requireEffectArgs(names ...string) cobra.PositionalArgs {
	return requireArgs("goversed effects shows names and tokens", "one effect at a time", names...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

func newShards() *cobra.Command {
	cmd := newOperator(&cobra.Command{
		Use:   "shards",
		Short: "Show the owners of the shards, and the moves",
		Long: `Show the owner of each shard, the balance between the owners, and the moves in the shard map with
their former and new owners. A completed move stays in the map until the next plan. Long lists of
ranges are cut short; -o json has all of them.`,
		Example: `  goversed shards
  goversed shards -o json | jq '.owners[] | [.address, .count]'
  goversed shards plan --without 127.0.0.1:47002`,
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		return showRead(f, func(ctx context.Context, o *operator.Operator) (shard.Table, error) {
			return o.Shards(ctx)
		}, operator.PrintShards), nil
	})
	cmd.AddCommand(newShardsPlan())
	return cmd
}

func newShardsPlan() *cobra.Command {
	var planner plannerFlags
	var without, with []string
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:   "plan",
		Short: "Preview which shards would move, and why",
		Long: `Show the moves that the leader's planner would make from now on. This is a dry run: nothing is
written. The planner assigns shards without an owner, drains nodes that leave or get no shards, and
rebalances the load. --without and --with add nodes that leave and join to the preview.

The planner's settings are not in etcd. If the nodes have other values than the defaults for
--shard-window, --shard-min-members or --shard-exclude, give the same values here. The preview
ignores --shard-moves-per-minute: it shows the moves, not their pace.`,
		Example: `  goversed shards plan
  goversed shards plan --without 127.0.0.1:47002
  goversed shards plan --with 10.0.0.4:47001 --with 10.0.0.5:47001=2 -o json
  goversed shards plan --shard-exclude role=gateway`,
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		if err := planner.checkFlags(); err != nil {
			return nil, err
		}
		for _, name := range []string{"without", "with"} {
			if values, _ := cmd.Flags().GetStringSlice(name); cmd.Flags().Changed(name) && len(values) == 0 {
				return nil, fmt.Errorf("--%s is empty: give the address of a node, or leave it out", name)
			}
		}
		suppose, err := parseSupposedChange(without, with)
		if err != nil {
			return nil, err
		}
		settings := shardview.Settings{Window: planner.window, MinMembers: planner.minMembers, Exclude: planner.exclude}
		return showRead(f, func(ctx context.Context, o *operator.Operator) (shardview.Preview, error) {
			return o.DryRun(ctx, settings, suppose)
		}, operator.PrintPreview), nil
	})
	fs := cmd.Flags()
	fs.StringSliceVar(&without, "without", nil, "`address` of a node that leaves in the preview; can be repeated")
	fs.StringSliceVar(&with, "with", nil, "`address[=weight]` of a node that joins in the preview; can be repeated")
	planner.register(fs)
	return cmd
}

func parseSupposedChange(without, with []string) (shardview.SupposedChange, error) {
	c := shardview.SupposedChange{Leave: without}
	if slices.Contains(without, "") {
		return c, errors.New(`--without "": give the address of a node; goversed nodes shows them`)
	}
	for _, node := range with {
		address, number, weighted := strings.Cut(node, "=")
		weight := 1
		var err error
		if weighted {
			weight, err = strconv.Atoi(number)
		}
		host, port, bad := net.SplitHostPort(address)
		if err != nil || bad != nil || host == "" || port == "" || weight < 1 {
			return c, fmt.Errorf("--with %q: write HOST:PORT or HOST:PORT=WEIGHT, with a weight from 1 up", node)
		}
		c.Join = append(c.Join, shardview.Joiner{Address: address, Weight: weight})
	}
	return c, nil
}

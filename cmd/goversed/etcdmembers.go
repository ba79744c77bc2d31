package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newEtcd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Show the members of etcd, or replace one that has lost its data",
		Example: `  goversed etcd members --etcd 10.0.0.1:2379
  goversed etcd replace c --etcd 10.0.0.1:2379,10.0.0.2:2379`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unexpectedWordError(cmd, args[0], "")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEtcdMembers(), newEtcdReplace())
	return cmd
}

func newEtcdMembers() *cobra.Command {
	cmd := newOperator(&cobra.Command{
		Use:   "members",
		Short: "List the members of etcd with their states",
		Long: `List the members of etcd's own cluster by name, and ask each at its client URLs for its state:
leader, follower, learner (it has no vote yet), not started (it was added, but has not started
yet), or no answer.`,
		Example: "  goversed etcd members --etcd 10.0.0.1:2379\n" +
			"  goversed etcd members -o json | jq '.items[] | [.name, .state]'",
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		return showRead(f, func(ctx context.Context, o *operator.Operator) ([]operator.EtcdMember, error) {
			return o.EtcdMembers(ctx)
		}, operator.PrintEtcdMembers), nil
	})
	_ = cmd.Flags().MarkHidden("prefix") // the command reads nothing of the cluster
	return cmd
}

func newEtcdReplace() *cobra.Command {
	var peer string
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:   "replace NAME",
		Short: "Replace a member of etcd that has lost its data, while the others serve",
		Long: `Replace the member NAME of etcd, which has lost its data. The command removes the old member, adds
a new one as a learner, waits until that has started and caught up, and then gives it a vote. Give
the addresses of the other members as --etcd.

Start goversed node for NAME with an empty --data-dir, before or after this command. Start it on the
same machine, or on another one with --peer. If the command is interrupted, run it again: it
continues. It is refused, without any change, while the old member still answers or too few of the
others do.`,
		Example: `  goversed etcd replace c --etcd 10.0.0.1:2379,10.0.0.2:2379
  goversed etcd replace c --etcd 10.0.0.1:2379,10.0.0.2:2379 --peer http://10.0.0.4:2380`,
		Args: requireArgs("goversed etcd members shows the names", "one member at a time", "NAME"),
	}, 5*time.Minute, func(f *operatorFlags) (operatorAction, error) {
		name := cmd.Flags().Arg(0)
		if name == "" {
			return nil, errors.New("NAME is empty: goversed etcd members shows the names")
		}
		if err := checkPeer(peer); err != nil {
			return nil, err
		}
		return func(ctx context.Context, o *operator.Operator, out io.Writer, json bool) error {
			done, err := o.ReplaceEtcdMember(ctx, f.timeout, name, strings.TrimSuffix(peer, "/"), func(line string) {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) // only the outcome matters
			})
			if err != nil {
				return err
			}
			return operator.PrintReplaced(out, done, json)
		}, nil
	})
	cmd.Flags().Lookup("prefix").Usage = "prefix of the key in etcd that stores the progress of the replacement"
	cmd.Flags().StringVar(&peer, "peer", "", "`URL` at which the other members reach the new one (default: that of "+
		"the old one)")
	return cmd
}

func checkPeer(peer string) error {
	address, ok := strings.CutPrefix(peer, "https://")
	if !ok {
		address, ok = strings.CutPrefix(peer, "http://")
	}
	if peer != "" && (!ok || !isCompleteAddress(strings.TrimSuffix(address, "/"))) {
		return fmt.Errorf("--peer %s: write it as in --etcd-cluster, like http://10.0.0.4:2380", peer)
	}
	return nil
}

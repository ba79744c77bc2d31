package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

func newDrain() *cobra.Command {
	var listen, advertise string // of the node on this host
	var undo, self bool
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:   "drain ADDRESS | drain --self",
		Short: "Move all shards off a node before maintenance",
		Long: `Ask the node at ADDRESS to release its shards, and wait until other nodes have all of them and
the node has released the last one. Then it gets no shards until goversed drain --undo, or until it
starts again. That also holds if this command is interrupted or runs out of time.

ADDRESS is the node's own address, as goversed nodes shows it. --self stands for the node on this
host: the address that goversed node would have with the same --advertise and --listen, or their
variables.

The node keeps running and remains a member. If it leads, it continues to lead; goversed resign
hands leadership over. A node that stops hands over its shards and its leadership by itself. The
command is refused if it would never end: no other node can take the shards, or no node leads.`,
		Example: `  goversed drain 127.0.0.1:47002
  goversed drain --undo 127.0.0.1:47002
  goversed drain 127.0.0.1:47002 --timeout 10m && ssh host2 reboot
  goversed drain --self && reboot
  goversed shards plan --without 127.0.0.1:47002`,
		Args: atMostOneAddress,
	}, time.Minute, func(f *operatorFlags) (operatorAction, error) {
		address, given := cmd.Flags().Arg(0), cmd.Flags().NArg() > 0
		switch {
		case given && address == "":
			return nil, errors.New("ADDRESS is empty: give that of a node; goversed nodes shows them")
		case given && self:
			return nil, fmt.Errorf("--self already names the node on this host: give --self or the ADDRESS %s, not both",
				address)
		case self:
			address = cmp.Or(advertise, listen)
		case !given:
			return nil, errors.New("which node? Give its ADDRESS, which goversed nodes shows, or --self for the one on this " +
				"host")
		}
		return func(ctx context.Context, o *operator.Operator, out io.Writer, json bool) error {
			drained, err := drainNode(ctx, o, out, f.timeout, address, undo, json)
			switch {
			case self && errors.Is(err, shardview.ErrUnknownNode):
				return fmt.Errorf("--self is the node with this host's --advertise or --listen; give its ADDRESS instead: %w", err)
			case err != nil:
				return err
			}
			return operator.PrintDrained(out, drained, json)
		}, nil
	})
	fs := cmd.Flags()
	fs.BoolVar(&undo, "undo", false, "end the drain, so that the node gets shards again")
	fs.BoolVar(&self, "self", false, "drain the node on this host")
	fs.StringVar(&listen, "listen", "127.0.0.1:47001", "with --self: the `host:port` at which the node listens")
	fs.StringVar(&advertise, "advertise", "", "with --self: the `host:port` that it advertises (default: --listen)")
	return cmd
}

// drainNode drains the node, or ends its drain. It shows the progress unless only the result is wanted.
func drainNode(ctx context.Context, o *operator.Operator, out io.Writer, timeout time.Duration, address string,
	undo, json bool) (operator.Drained, error) {
	switch {
	case undo:
		return o.Undrain(ctx, timeout, address)
	case json:
		return o.Drain(ctx, timeout, address, func(int, int) {})
	}
	p := &operator.DrainProgress{Out: out, Address: address}
	if size, ok := terminalSize(out, os.Getenv("TERM")); ok {
		p.Columns = func() int { columns, _ := size(); return columns }
	}
	defer p.End()
	return o.Drain(ctx, timeout, address, p.Show)
}

func atMostOneAddress(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("unexpected argument %q: one node at a time", args[1]))
}

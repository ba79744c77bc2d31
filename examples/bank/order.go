package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/goverse/goverse/examples/bank/bankpb"
)

// runOrder carries out the command in the program's arguments.
func runOrder(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	b, err := dial(cfg.nodes, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	args := flag.Args()
	var outcome bankpb.Outcome
	switch verb := args[0]; {
	case verb == "balance" && len(args) == 2:
		balance, err := b.balance(ctx, args[1])
		if err == nil {
			fmt.Println(balance)
		}
		return err
	case verb == "open" && len(args) == 3:
		amount, parsed := strconv.ParseInt(args[2], 10, 64)
		if parsed != nil {
			return parsed
		}
		outcome, err = b.open(ctx, args[1], amount)
	case verb == "transfer" && len(args) == 4:
		amount, parsed := strconv.ParseInt(args[3], 10, 64)
		if parsed != nil {
			return parsed
		}
		id := cmp.Or(cfg.id, rand.Text())
		fmt.Println("transfer", id) // so that it can be repeated
		outcome, err = b.transfer(ctx, id, &bankpb.RunRequest{From: args[1], To: args[2], Amount: amount})
	default:
		return fmt.Errorf("%q is no order; -help shows them", args)
	}
	if err != nil {
		return err
	}
	fmt.Println(outcome)
	if outcome != bankpb.Outcome_DONE {
		return fmt.Errorf("the bank refuses: %s", outcome)
	}
	return nil
}

// Command load calls the tutorial's service from outside until it is interrupted, and counts.
//
//	go run ./examples/tutorial/load -nodes 127.0.0.1:47011,127.0.0.1:47012,127.0.0.1:47013
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/cluster/objects/state"

	"github.com/goverse/goverse/examples/tutorial/stockpb"
)

func main() {
	nodes := flag.String("nodes", "127.0.0.1:47011", "`addresses` of some nodes, with commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*nodes, ",")); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

// run adds one unit to a hundred articles in turn until ctx ends. Each second it prints the counts and the slowest call
// of that second.
func run(ctx context.Context, nodes []string) error {
	dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := client.Dial(dialing, client.Config{Addresses: nodes, Prefix: "/stock",
		Idempotent: []string{stockpb.Item_Add_FullMethodName}}) // each call has a request id
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()

	var calls, failed int
	var slowest time.Duration // since the last line
	report := func() {
		fmt.Printf("%d calls, %d failed, slowest %v\n", calls, failed, slowest.Round(time.Millisecond))
		slowest = 0
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for ctx.Err() == nil {
		item := stockpb.NewItemClient(c.At(fmt.Sprint("article ", calls%100)))
		began := time.Now()
		_, err := item.Add(state.WithRequestID(context.Background(), rand.Text()), &stockpb.AddRequest{Units: 1})
		calls, slowest = calls+1, max(slowest, time.Since(began))
		if err != nil {
			failed++
			log.Print(err)
		}
		select {
		case <-second.C:
			report()
		default:
		}
	}
	report()
	return nil
}

// Command leader is the smallest program with one leading copy; README.md shows it. The leader writes its
// name to etcd, which refuses the write of a copy that no longer leads.
//
//	go run ./examples/leader -id one
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/slogger"
)

func main() {
	etcd := flag.String("etcd", "localhost:2379", "`address` of etcd")
	id := flag.String("id", "", "`name` of this copy; by default that of the host and a random part")
	ttl := flag.Duration("ttl", 10*time.Second, "`time` after which another copy replaces one that is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *etcd, *id, *ttl); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, etcd, id string, ttl time.Duration) (err error) {
	election, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: etcd, EtcdPrefix: "/example", ID: id,
		TTL: ttl, Logger: slogger.New(slog.Default())})
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil { // queued, and not yet leader; ctx bounds how long it tries
		return err
	}
	defer func() { err = errors.Join(err, runner.Stop(context.Background())) }() // hands over to the next copy

	err = election.LeadEach(ctx, func(ctx context.Context, term leaderelection.Term) error {
		// Called once a term of this copy; ctx ends with the term. etcd refuses the write once the term is over.
		_, err := term.Txn(ctx).Then(clientv3.OpPut("/example-data/leader", election.Leader().Address)).Commit()
		return err
	})
	if ctx.Err() != nil {
		return nil // told to stop
	}
	return err
}

// Command leader is the smallest program with one leading copy; README.md shows it. The leader writes its
// address to etcd, which refuses the write of a copy that no longer leads.
//
//	go run ./examples/leader -listen localhost:47011
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/node"
)

func main() {
	etcd := flag.String("etcd", "localhost:2379", "`address` of etcd")
	listen := flag.String("listen", "localhost:47011", "`address` by which the other copies reach this one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *etcd, *listen); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, etcd, listen string) (err error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd, EtcdPrefix: "/example",
		Logger: slogger.New(slog.Default())}, n)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil { // registered and queued, and not yet leader; ctx bounds how long it tries
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.Background())) }() // hands everything over

	err = c.LeadEach(ctx, func(ctx context.Context, term leaderelection.Term) error {
		// Called once a term of this copy; ctx ends with the term. etcd refuses the write once the term is over.
		_, err := term.Txn(ctx).Then(clientv3.OpPut("/example-data/leader", listen)).Commit()
		return err
	})
	if ctx.Err() != nil {
		return nil // told to stop
	}
	return err
}

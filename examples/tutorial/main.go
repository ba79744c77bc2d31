// Command tutorial is the service that docs/start/tutorial.md builds: the stock of a shop. Each article is an object
// with its state in PostgreSQL. Any number of nodes serve them.
//
//	goversed node                                       # has an etcd on 127.0.0.1:2379
//	go run ./examples/tutorial -db postgres://localhost/stock
//	go run ./examples/tutorial -db postgres://localhost/stock -listen 127.0.0.1:47012 -http 127.0.0.1:48012
//	go run ./examples/tutorial/load -nodes 127.0.0.1:47011,127.0.0.1:47012
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/node"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

type config struct{ etcd, db, listen, http string }

func main() {
	var cfg config
	flag.StringVar(&cfg.etcd, "etcd", "127.0.0.1:2379", "`address` of etcd")
	flag.StringVar(&cfg.db, "db", "postgres://localhost/stock", "`URL` of the database")
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:47011", "`address` of this node, which the others must reach")
	flag.StringVar(&cfg.http, "http", "127.0.0.1:48011", "`address` of its status and dashboard")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	if err := run(ctx, cfg); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run runs one node until ctx ends.
func run(ctx context.Context, cfg config) error {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pool, err := pgxpool.New(starting, cfg.db)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.CreateTables(starting, pool, ""); err != nil {
		return err
	}
	store, err := postgres.New(postgres.Config{DB: pool})
	if err != nil {
		return err
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: "/stock",
		HTTPAddress: cfg.http, Logger: slogger.New(slog.Default())}, n)
	if err != nil {
		return err
	}
	registerItems(c, store)
	l, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return err
	}
	web := httpapi.Serve(l, httpapi.New(c, httpapi.Options{}), nil)

	if err := c.Start(starting); err != nil {
		return errors.Join(err, web.Stop(context.Background()))
	}
	slog.Info("ready", "node", n.AdvertiseAddress(), "dashboard", "http://"+web.Address())
	select {
	case <-ctx.Done():
	case <-n.Done(): // its listener failed
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(n.Err(), c.Stop(stopping), web.Stop(stopping))
}

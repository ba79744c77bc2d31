// Command counter is the smallest program with objects. It has a counter for each key, on one of the nodes; a
// client calls it with the generated code through any node.
//
//	go run ./examples/counter
//	go run ./examples/counter -listen 127.0.0.1:47002 -etcd 127.0.0.1:2379
//	go run ./examples/counter -listen 127.0.0.1:47003 -etcd 127.0.0.1:2379
//
// The first node also runs an etcd, which ends with it. counter.go has the counters; README.md shows how to
// call them from other languages.
//
// The counters are in memory alone. A counter starts again at 0 when its node stops or is killed, when its
// shard moves to a node that has joined, and when it was not called for ten minutes. Package
// cluster/objects/state stores what must survive; examples/chat uses it.
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

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

type config struct{ listen, etcd, etcdListen string }

func main() {
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:47001", "`address` of this node, which the others must reach")
	flag.StringVar(&cfg.etcd, "etcd", "", "`address` of etcd; if there is none, this process runs one")
	flag.StringVar(&cfg.etcdListen, "etcd-listen", "127.0.0.1:2379", "`address` of the etcd of this process")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run runs one node until ctx ends.
func run(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	if cfg.etcd == "" {
		server, err := embedetcd.Start(ctx, embedetcd.Config{ListenClient: cfg.etcdListen})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		cfg.etcd = server.Endpoint()
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: "/counter",
		Logger: slogger.New(log)}, n)
	if err != nil {
		return err
	}
	register(c)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return err
	}
	log.Info("ready", "listen", n.AdvertiseAddress(), "etcd", cfg.etcd)
	select {
	case <-ctx.Done():
	case <-n.Done(): // its listener failed
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(n.Err(), c.Stop(stopping))
}

// Command service is a complete service on Goverse: a gRPC service with its keys spread over the nodes, its
// status over HTTP, a route and a job that only the leader serves, and a stop that hands everything over.
//
//	go run ./examples/service -etcd localhost:2379 -listen localhost:47001 -http localhost:48001
//
// Start as many copies as you like, each at addresses of its own. counts.go has the gRPC service and report.go
// the leader's job; this file puts the parts together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/examples/service/countspb"
	"github.com/goverse/goverse/node"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

type config struct {
	etcd, prefix, listen, http string
	shards                     int
	every                      time.Duration
}

func main() {
	var cfg config
	flag.StringVar(&cfg.etcd, "etcd", "localhost:2379", "`address` of etcd, several with commas")
	flag.StringVar(&cfg.prefix, "prefix", "/service", "the cluster's `prefix` in etcd: the same for all copies")
	flag.StringVar(&cfg.listen, "listen", "localhost:47001", "`address` of this copy's gRPC, which the others must reach")
	flag.StringVar(&cfg.http, "http", "localhost:48001", "`address` of this copy's HTTP")
	flag.IntVar(&cfg.shards, "shards", 64, "how many shards there are: the same for all copies, forever")
	flag.DurationVar(&cfg.every, "every", 10*time.Second, "how often the leader makes a report")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	// The first signal stops the program in order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run runs one copy until ctx ends.
func run(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen, Logger: slogger.New(log)})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		HTTPAddress: cfg.http,
		Sharding:    cluster.Sharding{Shards: cfg.shards}, Logger: slogger.New(log)}, n)
	if err != nil {
		return err
	}
	etcd, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: cfg.etcd, Logger: slogger.New(log)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	counts := &counts{shards: c.Shards(), etcd: etcd, prefix: cfg.prefix + "-counts/"}
	report := &report{cluster: c, counts: counts, key: cfg.prefix + "-report", log: log}

	// The gRPC service answers from c.Start on. While the node joins or leaves, the cluster's handles return errors.
	countspb.RegisterCountsServer(n.Server(), counts)
	l, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("%w; give another address with -http", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(c, httpapi.Options{})) // /livez, /readyz, /metrics, /cluster/...
	mux.Handle("/report", leaderonly.Handler(leaderonly.Cluster(c), report, leaderonly.Options{
		Applies: leaderonly.All, Elsewhere: leaderonly.Redirect}))
	web := httpapi.Serve(l, mux, slogger.New(log))

	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return errors.Join(err, web.Stop(context.Background()))
	}
	log.Info("ready", "grpc", n.AdvertiseAddress(), "http", web.Address())
	var jobs sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs.Go(func() { report.run(ctx, cfg.every) })
	select {
	case <-ctx.Done():
	case <-n.Done(): // a listener failed
	case <-web.Done():
	}
	failed := errors.Join(n.Err(), web.Err())
	if failed != nil {
		log.Error("stopping", "error", failed)
	}
	stop()

	// The order matters: the leader's job ends before another node leads, calls end before their shards move,
	// and the status stays readable until the end.
	jobs.Wait()
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(failed, c.Stop(stopping), web.Stop(stopping))
}

// Command controller is a service with a JSON API that runs in several copies behind a load balancer. Any copy
// answers reads. Only the leader writes, in transactions that etcd commits only while it leads. Each write has
// an id, so a repeated write takes effect once.
//
//	go run ./examples/controller -etcd localhost:2379 -listen localhost:47001 -http localhost:48001
//
// README.md has all the commands, with nginx in front. configs.go has the API; this file puts the parts
// together.
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
	"syscall"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/node"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

// elsewhereModes maps the values of -elsewhere to their options.
var elsewhereModes = map[string]leaderonly.Elsewhere{"refuse": leaderonly.Refuse, "redirect": leaderonly.Redirect,
	"forward": leaderonly.Forward}

type config struct {
	etcd, prefix, listen, http string
	elsewhere                  string
	remember                   time.Duration
}

func main() {
	cfg, err := parse(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	// The first signal stops the program in order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

func parse(args []string) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	flags.StringVar(&cfg.etcd, "etcd", "localhost:2379", "`address` of etcd, several with commas")
	flags.StringVar(&cfg.prefix, "prefix", "/controller", "the cluster's `prefix` in etcd: the same for all copies")
	flags.StringVar(&cfg.listen, "listen", "localhost:47001", "`address` of this copy's node, which the others must reach")
	flags.StringVar(&cfg.http, "http", "localhost:48001", "`address` of this copy's HTTP")
	flags.StringVar(&cfg.elsewhere, "elsewhere", "refuse",
		"what copies that do not lead do with writes: refuse (503), redirect (307) or forward")
	flags.DurationVar(&cfg.remember, "remember", time.Hour, "how long a write that is sent again is recognised, at least")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	switch _, known := elsewhereModes[cfg.elsewhere]; {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("%q is too much; all is said by flags", flags.Arg(0))
	case !known:
		return cfg, fmt.Errorf("-elsewhere is %q; there are refuse, redirect, forward", cfg.elsewhere)
	case cfg.remember < time.Minute:
		return cfg, fmt.Errorf("-remember is %v; give a minute or more", cfg.remember)
	}
	return cfg, nil
}

// run runs one copy until ctx ends.
func run(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen, Logger: slogger.New(log)})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		HTTPAddress: cfg.http, Sharding: cluster.Sharding{Off: true}, Logger: slogger.New(log)}, n)
	if err != nil {
		return err
	}
	etcd, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: cfg.etcd, Logger: slogger.New(log)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	l, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("%w; give another address with -http", err)
	}
	api := &configs{etcd: etcd, prefix: cfg.prefix + "-data/", node: cfg.listen, remember: cfg.remember}
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(c, httpapi.Options{})) // /livez, /readyz, /leaderz, /metrics, /cluster/...
	mux.Handle("/configs/", leaderonly.Handler(leaderonly.Cluster(c), api.routes(), leaderonly.Options{
		Elsewhere: elsewhereModes[cfg.elsewhere], Logger: slogger.New(log)}))
	web := httpapi.Serve(l, mux, slogger.New(log))

	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return errors.Join(err, web.Stop(context.Background()))
	}
	log.Info("ready", "node", n.AdvertiseAddress(), "http", web.Address())
	select {
	case <-ctx.Done():
	case <-n.Done(): // a listener failed
	case <-web.Done():
	}
	failed := errors.Join(n.Err(), web.Err())
	if failed != nil {
		log.Error("stopping", "error", failed)
	}
	// The order matters: the cluster waits for running writes before another copy leads, and the server still
	// refuses or passes on the writes that arrive meanwhile.
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(failed, c.Stop(stopping), web.Stop(stopping))
}

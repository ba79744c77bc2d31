// Command controller is a service with a JSON API that runs in several copies behind a load balancer. Any copy
// answers reads. Only the leader writes, in transactions that commit only while it leads. Each write has an id, so a
// repeated write takes effect once. The copies agree, and keep the documents, in etcd or in PostgreSQL:
//
//	go run ./examples/controller -etcd localhost:2379 -listen localhost:47001 -http localhost:48001
//	go run ./examples/controller -postgres postgres://user:password@host/name -http localhost:48001
//
// README.md has all the commands, with nginx in front. configs.go has the API, etcd.go and postgres.go the two ways to
// agree and to keep; this file puts the parts together.
package main

import (
	"cmp"
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

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/slogger"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

// elsewhereModes maps the values of -elsewhere to their options.
var elsewhereModes = map[string]leaderonly.Elsewhere{"refuse": leaderonly.Refuse, "redirect": leaderonly.Redirect,
	"forward": leaderonly.Forward}

type config struct {
	etcd, prefix, listen string
	postgres             string // empty: etcd
	http, advertise      string
	elsewhere            string
	remember             time.Duration
}

// coordination holds the means by which the copies agree on their leader, and the store of the documents.
type coordination struct {
	name  string // of this copy
	store store
	leads leaderonly.Leadership
	wait  time.Duration // of requests for the next leader; 0 for the default
	pages http.Handler  // /livez, /readyz, /leaderz, /metrics, /cluster/...

	start    func(ctx context.Context) error // returns when this copy takes part
	failed   <-chan struct{}                 // closed when it cannot go on; err returns the reason
	err      func() error
	handOver func(ctx context.Context) error // waits for running writes, then lets another copy lead
	close    func(ctx context.Context) error
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
	flags.StringVar(&cfg.postgres, "postgres", "",
		"`URL` of a database in place of etcd; $DATABASE_URL if neither -postgres nor -etcd is given")
	flags.StringVar(&cfg.http, "http", "localhost:48001", "`address` of this copy's HTTP")
	flags.StringVar(&cfg.advertise, "advertise", "", "`address` at which the others reach its HTTP (default -http)")
	flags.StringVar(&cfg.elsewhere, "elsewhere", "refuse",
		"what copies that do not lead do with writes: refuse (503), redirect (307) or forward")
	flags.DurationVar(&cfg.remember, "remember", time.Hour, "how long a write that is sent again is recognised, at least")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["etcd"] && !given["postgres"] {
		cfg.postgres = os.Getenv("DATABASE_URL")
	}
	cfg.advertise = cmp.Or(cfg.advertise, cfg.http)
	switch _, known := elsewhereModes[cfg.elsewhere]; {
	case given["postgres"] && (given["etcd"] || given["prefix"] || given["listen"]):
		return cfg, errors.New("-etcd, -prefix and -listen have no use with -postgres; leave them out")
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
	join := joinCluster
	if cfg.postgres != "" {
		join = openSession
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := join(starting, cfg, slogger.New(log))
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, c.close(closing))
	}()
	l, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("%w; give another address with -http", err)
	}
	api := &configs{store: c.store, node: c.name}
	mux := http.NewServeMux()
	mux.Handle("/", c.pages)
	mux.Handle("/configs/", leaderonly.Handler(c.leads, api.routes(), leaderonly.Options{
		Elsewhere: elsewhereModes[cfg.elsewhere], Wait: c.wait, Logger: slogger.New(log)}))
	web := httpapi.Serve(l, mux, slogger.New(log))

	if err := c.start(starting); err != nil {
		return errors.Join(err, web.Stop(context.Background()))
	}
	log.Info("ready", "node", c.name, "http", web.Address())
	select {
	case <-ctx.Done():
	case <-c.failed:
	case <-web.Done():
	}
	failed := errors.Join(c.err(), web.Err())
	if failed != nil {
		log.Error("stopping", "error", failed)
	}
	// The order matters: running writes end before another copy leads, and the server still refuses or passes on the
	// writes that arrive meanwhile.
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(failed, c.handOver(stopping), web.Stop(stopping))
}

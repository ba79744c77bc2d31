// Command postgres is a service in several copies that has a database and nothing else: no etcd, no broker. One copy
// publishes the rows of an outbox, each once and in order; one answers requests that only the leader may answer; and
// one runs a job at intervals. If a copy dies, another one goes on.
//
//	go run ./examples/postgres -postgres postgres://user:password@host/name -http localhost:48001
//	go run ./examples/postgres -postgres postgres://user:password@host/name -http localhost:48002
//	curl -X POST localhost:48002/orders -d '{"item": "tea"}'
//
// docs/guides/postgres.md explains it, and shows outbox.go.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
)

//go:embed schema.sql
var tables string

const stopTimeout = 10 * time.Second

type config struct {
	postgres, http string
	every          time.Duration
}

func main() {
	var cfg config
	flag.StringVar(&cfg.postgres, "postgres", "", "`URL` of the database, postgres://user:password@host/name")
	flag.StringVar(&cfg.http, "http", "localhost:48001", "`address` of this copy's HTTP, which the others must reach")
	flag.DurationVar(&cfg.every, "every", time.Minute, "how often the leader reports")
	flag.Parse()
	if cfg.postgres == "" || flag.NArg() > 0 || cfg.every <= 0 {
		fmt.Fprintln(os.Stderr, "postgres: give -postgres postgres://user:password@host/name; -help shows all flags")
		os.Exit(2)
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "postgres", Level: hclog.Info, Output: os.Stderr})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run runs one copy until ctx ends.
func run(ctx context.Context, cfg config, log hclog.Logger) (err error) {
	db, err := pgxpool.New(ctx, cfg.postgres)
	if err != nil {
		return fmt.Errorf("-postgres: %w", err)
	}
	defer db.Close()
	if _, err := db.Exec(ctx, "select pg_advisory_xact_lock(1);\n"+tables); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	listener, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("%w; give another address with -http", err)
	}
	url := "http://" + listener.Addr().String()
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.postgres, Owner: url, Logger: log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { // other copies need not wait for this one
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, session.Close(stopping))
	}()
	service, err := postgres.New(session, postgres.Logger(log)).Stand("service")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	server := &http.Server{Handler: routes(db, service, url), ReadHeaderTimeout: stopTimeout}
	var served error
	running.Go(func() {
		defer cancel() // a copy that cannot serve ends
		served = serve(server, listener)
	})
	running.Go(func() { reportPeriodically(ctx, service, cfg.every, log) })
	log.Info("ready", "url", url, "pid", os.Getpid())
	err = publishOutbox(ctx, db, session, log)
	stopping, cancelStopping := context.WithTimeout(context.Background(), stopTimeout)
	defer cancelStopping()
	err = errors.Join(err, server.Shutdown(stopping))
	cancel()
	running.Wait()
	return errors.Join(err, served)
}

// serve serves HTTP until Shutdown, which is no error.
func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

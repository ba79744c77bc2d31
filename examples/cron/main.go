// Command cron runs a command on a schedule, once for each time that is due, however many
// copies of it run.
//
//	go run ./examples/cron -etcd localhost:2379 -name report -schedule '0 3 * * *' -- ./report.sh
//
// Start it on as many machines as you like. One of them leads and runs the command; when it
// stops, the next one goes on within milliseconds, when its process dies within a tenth of a
// second, and looks back (-catch-up) for times that nobody served. Each time is an effect of
// its own (Cluster.Once), so that none is served twice, also when the leader dies in the middle:
// then nobody knows whether the command did its work, the log says which time it was, and a
// person looks.
//
// The command finds in its environment: CRON_DUE, the time that is served (RFC 3339), and
// CRON_TOKEN, the fencing token of the attempt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/robfig/cron/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/node"
)

const stopTimeout = 10 * time.Second

type config struct {
	etcd, prefix, listen string
	job                  job
}

func main() {
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(2)
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "cron", Level: hclog.Info, Output: os.Stderr})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("cron", flag.ContinueOnError)
	flags.StringVar(&cfg.etcd, "etcd", "localhost:2379", "where etcd is, several with commas")
	flags.StringVar(&cfg.prefix, "prefix", "/cron", "the cluster's `prefix` in etcd: the same for all copies")
	flags.StringVar(&cfg.listen, "listen", "localhost:0", "`address` of this copy, which the others must reach; port 0 is any")
	flags.StringVar(&cfg.job.name, "name", "job", "of the job: the same for all copies")
	flags.DurationVar(&cfg.job.catchUp, "catch-up", time.Minute, "how far a new leader looks back for times that nobody served")
	schedule := flags.String("schedule", "", "when: five fields as in crontab(5), or six with the seconds first")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	cfg.job.command = flags.Args()
	if len(cfg.job.command) == 0 {
		return cfg, errors.New("there is nothing to run; name a command after --")
	}
	// No "@every 1m": its times depend on when the process started, so that two copies would
	// serve different ones.
	var err error
	cfg.job.schedule, err = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(*schedule)
	if err != nil {
		return cfg, fmt.Errorf("-schedule %q: %w; give it as in crontab(5), say '*/5 * * * *'", *schedule, err)
	}
	return cfg, nil
}

// run is one copy, until ctx ends.
func run(ctx context.Context, cfg config, log hclog.Logger) error {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix, Logger: log.Named("cluster"),
		Sharding: cluster.Sharding{Off: true}}, n)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	err = serve(ctx, c, cfg.job, log)
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(err, c.Stop(stopping))
}

// Command cron runs a command on a schedule, once for each due time, however many copies of it run.
//
//	go build -C examples/cron -o ../../bin/ .
//	bin/cron -etcd localhost:2379 -name report -schedule '0 3 * * *' -- ./report.sh
//
// Start it on as many machines as you like. One copy leads and runs the command. If the leader stops, the next
// copy takes over within milliseconds; if its process dies, within a tenth of a second. The new leader serves
// the times that became due meanwhile, within the limit of -catch-up. Each due time is an effect of its own
// (Cluster.Once), so its command is started at most once, by any copy.
//
//   - A command that fails (its exit status is not 0) is not run again for that time. The log reports the failure and
//     the next due time.
//   - If the leading copy is stopped or loses its session, the command gets SIGTERM and, a second later, SIGKILL. If
//     it does not end with exit status 0, it may have done part of its work. It is not run again, and the log of that
//     copy reports it.
//   - If the leading copy is killed or its machine fails, it is unknown whether the command did its work. The next
//     leader's log names the due time, however long ago it was. The command is not run again; the operator has to look.
//   - A run that could not begin, because etcd was unavailable or the command could not be started, is retried until
//     it is later than -catch-up allows. The same holds for a time that had to wait for a long run before it.
//   - The times before the job's very first leader are not served.
//
// If a command should run again until it succeeds, let it retry by itself: only the command knows which of its
// steps may be repeated.
//
// On Linux the command is killed when its cron is killed, but processes that the command has started are not:
// in a script, exec the last program. On other systems the command continues, possibly beside the run of the
// next leader. There it must compare CRON_TOKEN with the largest one it has seen, or run under a supervisor
// that ends its whole process group.
//
// The command's environment has CRON_DUE, the due time (RFC 3339, UTC), and CRON_TOKEN, the fencing token of
// the attempt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
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
	cfg, err := parse(os.Args[1:], os.Stdout)
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

const usage = `usage: cron [flags] -- COMMAND [ARGUMENT...]

Runs a command on a schedule, once for each time that is due, however many copies of it run.

  cron -name report -schedule '0 3 * * *' -- ./report.sh
  cron -name report -schedule 'CRON_TZ=Europe/Berlin 0 3 * * *' -- ./report.sh

The command finds in its environment:
  CRON_DUE    the time that is served, as in 2026-01-31T03:00:00Z
  CRON_TOKEN  the fencing token of the attempt: a larger one is of a later attempt

Flags:
`

// parse reads the command line. If it asks for help, parse writes the help and returns flag.ErrHelp.
func parse(args []string, help io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("cron", flag.ContinueOnError)
	flags.StringVar(&cfg.etcd, "etcd", "localhost:2379", "`address` of etcd, several with commas")
	flags.StringVar(&cfg.prefix, "prefix", "/cron", "the cluster's `prefix` in etcd: the same for all copies")
	flags.StringVar(&cfg.listen, "listen", "localhost:0",
		"`address` of this copy, which the others must reach; port 0 is any")
	flags.StringVar(&cfg.job.name, "name", "job", "`name` of the job: the same for all copies")
	flags.DurationVar(&cfg.job.catchUp, "catch-up", time.Minute,
		"how late a time may still be served, because nobody led, etcd was away, or the run before took long")
	schedule := flags.String("schedule", "", "`times` that are due: five fields as in crontab(5), or six with the "+
		"seconds first; in UTC, unless CRON_TZ=ZONE and a space come first")
	flags.SetOutput(io.Discard) // main prints errors, on one line
	flags.Usage = func() {}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(help, usage)
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return cfg, err
	}
	cfg.job.begun = begunKey(cfg.prefix, cfg.job.name)
	cfg.job.command = flags.Args()
	if len(cfg.job.command) == 0 {
		return cfg, errors.New("there is nothing to run; name a command after --")
	}
	if _, err := exec.LookPath(cfg.job.command[0]); err != nil {
		return cfg, fmt.Errorf("the command cannot be run: %w; give its path", err)
	}
	if cfg.job.name == "" {
		return cfg, errors.New("-name is empty; give the job one, the same for all copies")
	}
	if cfg.job.catchUp < time.Second {
		return cfg, fmt.Errorf("-catch-up %v: give a second or more, for nothing begins at its very instant", cfg.job.catchUp)
	}
	var err error
	cfg.job.schedule, err = parseSchedule(*schedule)
	if err != nil {
		return cfg, fmt.Errorf("-schedule %q: %w; give it as in crontab(5), say '*/5 * * * *'", *schedule, err)
	}
	return cfg, nil
}

// parseSchedule parses a schedule. A schedule that names no time zone uses the zone of the times passed to
// Next. It does not accept "@every 1m": those times depend on the start of the process, so two copies would
// serve different ones.
func parseSchedule(spec string) (cron.Schedule, error) {
	if strings.Contains(spec, "TZ=") && !strings.Contains(spec, " ") { // the parser would panic
		return nil, errors.New("there is nothing after the time zone")
	}
	schedule, err := cron.NewParser(
		cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		return nil, err
	}
	if schedule.Next(time.Now().UTC()).IsZero() {
		return nil, errors.New("no such day comes in the next five years")
	}
	return schedule, nil
}

// retention returns the time that the marks of served times are kept. It is longer than a time may still be
// served, even by a machine with its clock a day behind.
func retention(catchUp time.Duration) time.Duration { return 2*catchUp + 24*time.Hour }

// run runs one copy until ctx ends.
func run(ctx context.Context, cfg config, log hclog.Logger) error {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		Logger:        log.Named("cluster"),
		OnceRetention: retention(cfg.job.catchUp), Sharding: cluster.Sharding{Off: true}}, n)
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

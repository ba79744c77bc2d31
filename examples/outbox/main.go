// Command outbox publishes the events that transactions have left in a table, each row once and in order,
// however many copies run and however they die.
//
//	outbox create  -postgres URL                             creates the tables
//	outbox sink    -postgres URL -listen ADDRESS             receives events: it stands for the rest of the world
//	outbox publish -postgres URL -etcd ADDRESS -sink URL     publishes; as many copies as you like
//	outbox publish -postgres URL -alone -sink URL            the same, without etcd
//	outbox order   -postgres URL -n 1000                     writes orders and rolls some of them back
//
// One of the publishers leads. If it stops, the next one takes over within milliseconds; if its process dies, within a
// tenth of a second, or three seconds without etcd. The checkpoint is in etcd or in the database. A new leader sends
// events again that were sent but not yet noted in the checkpoint. The sink recognises each event by its name (its
// position in the outbox), and refuses a fencing token smaller than the largest one it has seen. All three are needed:
// a sender alone can deliver at least once or at most once, not exactly once.
//
// The outbox is not read by its serial number, because that would miss rows: see postgres.Source.
//
// Not promised: events of transactions that ran at the same time have no particular order; see postgres.Source.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var tables string

// config holds the parsed command line.
type config struct {
	verb, postgres, listen string

	etcd, prefix, sink string
	alone              bool // without etcd
	ttl                int
	poll, keep         time.Duration

	orders int
}

func main() {
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(2)
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "outbox", Level: hclog.Info, Output: os.Stderr})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

const usage = `usage: outbox VERB [flags]

  outbox create  -postgres URL           the tables
  outbox sink    -postgres URL           receives: it stands for the rest of the world
  outbox publish -postgres URL           as many copies as you like
  outbox order   -postgres URL -n 1000   writes orders, some of them rolled back

outbox VERB -help shows the flags.
`

// parse reads the command line.
func parse(args []string) (config, error) {
	cfg := config{}
	if len(args) > 0 {
		cfg.verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("outbox "+cfg.verb, flag.ContinueOnError)
	flags.StringVar(&cfg.postgres, "postgres", "", "`URL` of the database, postgres://user:password@host/name")
	switch cfg.verb {
	case "create":
	case "order":
		flags.IntVar(&cfg.orders, "n", 1000, "how many")
	case "sink":
		flags.StringVar(&cfg.listen, "listen", "127.0.0.1:8090", "`address` to receive at")
	case "publish":
		flags.StringVar(&cfg.etcd, "etcd", "localhost:2379", "where etcd is, several with commas")
		flags.BoolVar(&cfg.alone, "alone", false, "do without etcd: the copies agree by the database, too")
		flags.StringVar(&cfg.prefix, "prefix", "/outbox", "the cluster's `prefix` in etcd: the same for all copies")
		flags.StringVar(&cfg.listen, "listen", "localhost:0",
			"`address` of this copy, which the others must reach; port 0 is any")
		flags.StringVar(&cfg.sink, "sink", "http://127.0.0.1:8090", "`URL` to publish to")
		flags.IntVar(&cfg.ttl, "ttl", 0, "TTL of the session in `seconds` (default 10); with -alone, for how long the "+
			"others wait for a copy whose host is gone (default 3)")
		flags.DurationVar(&cfg.poll, "poll", time.Second, "how often to look when PostgreSQL says nothing")
		flags.DurationVar(&cfg.keep, "keep", 24*time.Hour, "how long published rows stay in the table")
	case "-h", "-help", "--help", "help":
		fmt.Print(usage)
		return cfg, flag.ErrHelp
	default:
		return cfg, fmt.Errorf("no verb %q; there are create, sink, publish and order", cfg.verb)
	}
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.alone {
		var unused []string
		flags.Visit(func(f *flag.Flag) {
			if f.Name == "etcd" || f.Name == "prefix" || f.Name == "listen" {
				unused = append(unused, "-"+f.Name)
			}
		})
		if len(unused) > 0 {
			return cfg, fmt.Errorf("-alone does without etcd, so leave out %s", strings.Join(unused, ", "))
		}
	}
	sink, err := url.Parse(cfg.sink)
	switch {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("%q is too much; flags come after the verb and begin with -", flags.Arg(0))
	case cfg.postgres == "":
		return cfg, errors.New("which database? give -postgres postgres://user:password@host/name")
	case cfg.verb == "publish" && (err != nil || sink.Host == ""):
		return cfg, fmt.Errorf("-sink %q is no URL; give it as http://host:port", cfg.sink)
	case cfg.verb == "publish" && (cfg.poll <= 0 || cfg.keep < 0):
		return cfg, errors.New("-poll must be above 0, and -keep not below")
	}
	cfg.sink = strings.TrimSuffix(cfg.sink, "/")
	return cfg, nil
}

// run carries out the command line until it is done or ctx ends.
func run(ctx context.Context, cfg config, log hclog.Logger) error {
	db, err := pgxpool.New(ctx, cfg.postgres)
	if err != nil {
		return fmt.Errorf("-postgres: %w", err)
	}
	// The pool is not closed: Close would wait for a server that does not respond any more.
	switch cfg.verb {
	case "create":
		_, err = db.Exec(ctx, tables)
		return err
	case "order":
		return placeOrders(ctx, db, cfg.orders)
	case "sink":
		return serveSink(ctx, db, cfg.listen, log)
	}
	return runPublisher(ctx, cfg, db, log)
}

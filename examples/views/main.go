// Command views keeps a read model: tables derived from a table of events. Each event takes effect once in each
// of them, however many copies run and however they die.
//
//	views create  -postgres URL                  creates the tables
//	views serve   -postgres URL -etcd ADDRESS    keeps the views; as many copies as you like
//	views serve   -postgres URL -alone           the same, without etcd
//	views buy     -postgres URL -n 1000          writes events
//	views rebuild -postgres URL totals           makes a view again from the first event
//
// Each view is a processor with an election of its own. The first copy leads all of them until it stops or
// dies. With -views a copy stands only for some of them, which spreads the load by hand; processing by shards
// spreads it automatically, see processor.Shard.
//
// A view's checkpoint is stored in the transaction that changes the view. So no event is lost or applied twice
// when a leader dies, and a former leader changes nothing. An event that cannot be handled is
// parked: /cluster/processors counts parked events, /views/NAME/parked shows them.
//
// Not promised: two views need not show the same instant, because each progresses at its own pace.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor/postgres"
)

//go:embed schema.sql
var tables string

// config holds the parsed command line.
type config struct {
	verb, postgres string

	etcd, prefix, listen, http string
	alone                      bool // without etcd
	ttl                        int
	poll                       time.Duration
	views                      []view // to stand for, or to rebuild

	events int
}

func main() {
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "views:", err)
		os.Exit(2)
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "views", Level: hclog.Info, Output: os.Stderr})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

const usage = `usage: views VERB [flags]

  views create  -postgres URL                 the tables
  views serve   -postgres URL                 as many copies as you like
  views buy     -postgres URL -n 1000         writes events
  views rebuild -postgres URL totals          makes a view again from the first event

views VERB -help shows the flags.
`

// parse reads the command line.
func parse(args []string) (config, error) {
	cfg := config{}
	if len(args) > 0 {
		cfg.verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("views "+cfg.verb, flag.ContinueOnError)
	flags.StringVar(&cfg.postgres, "postgres", "", "`URL` of the database, postgres://user:password@host/name")
	names := new(string)
	switch cfg.verb {
	case "create", "rebuild":
	case "buy":
		flags.IntVar(&cfg.events, "n", 1000, "how many")
	case "serve":
		flags.StringVar(&cfg.etcd, "etcd", "localhost:2379", "where etcd is, several with commas")
		flags.BoolVar(&cfg.alone, "alone", false, "do without etcd: the copies agree by the database, too")
		flags.StringVar(&cfg.prefix, "prefix", "/views", "the cluster's `prefix` in etcd: the same for all copies")
		flags.StringVar(&cfg.listen, "listen", "localhost:0",
			"`address` of this copy, which the others must reach; port 0 is any")
		flags.StringVar(&cfg.http, "http", "127.0.0.1:0", "`address` of the views and the status; port 0 is any")
		flags.IntVar(&cfg.ttl, "ttl", 0, "TTL of the session in `seconds` (default 10); with -alone, for how long the "+
			"others wait for a copy whose host is gone (default 3)")
		flags.DurationVar(&cfg.poll, "poll", time.Second, "how often to look when PostgreSQL says nothing")
		names = flags.String("views", "", "the `names` of those to stand for, with commas; default all")
	case "-h", "-help", "--help", "help":
		fmt.Print(usage)
		return cfg, flag.ErrHelp
	default:
		return cfg, fmt.Errorf("no verb %q; there are create, serve, buy and rebuild", cfg.verb)
	}
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.verb == "rebuild" {
		*names = strings.Join(flags.Args(), ",")
	}
	switch {
	case cfg.verb == "rebuild" && *names == "":
		return cfg, errors.New("which view? name it after the flags")
	case cfg.verb != "rebuild" && flags.NArg() > 0:
		return cfg, fmt.Errorf("%q is too much; flags come after the verb and begin with -", flags.Arg(0))
	case cfg.postgres == "":
		return cfg, errors.New("which database? give -postgres postgres://user:password@host/name")
	case cfg.verb == "serve" && cfg.poll <= 0:
		return cfg, errors.New("-poll must be above 0")
	}
	if *names == "" {
		cfg.views = views
		return cfg, nil
	}
	for name := range strings.SplitSeq(*names, ",") {
		v, err := findView(name)
		if err != nil {
			return cfg, err
		}
		if slices.ContainsFunc(cfg.views, func(other view) bool { return other.name == name }) {
			return cfg, fmt.Errorf("view %q is named twice; name it once", name)
		}
		cfg.views = append(cfg.views, v)
	}
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
		return create(ctx, db)
	case "buy":
		return writePurchases(ctx, db, cfg.events)
	case "rebuild":
		for _, v := range cfg.views {
			if err := v.rebuild(ctx, db); err != nil {
				return err
			}
		}
		return nil
	}
	return serve(ctx, cfg, db, log)
}

// create creates the tables, including those of the checkpoints.
func create(ctx context.Context, db *pgxpool.Pool) error {
	if _, err := db.Exec(ctx, tables); err != nil {
		return err
	}
	checkpoints, err := postgres.New(postgres.Config{DB: db})
	if err != nil {
		return err
	}
	return checkpoints.CreateTables(ctx)
}

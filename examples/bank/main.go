// Command bank moves money between accounts that may be on different nodes. It neither creates nor loses money,
// whichever process is killed at whichever moment.
//
//	go run ./examples/bank -postgres postgres://user:password@host/name
//	go run ./examples/bank open ann 100
//	go run ./examples/bank open bob 100
//	go run ./examples/bank transfer ann bob 30
//	go run ./examples/bank balance bob
//
// The first command runs a node with an etcd of its own; the others call it. Further nodes join it with -etcd
// and a -listen address of their own. The flag -nodes a,b,c names the nodes to call.
//
// An account is an object with its balance in PostgreSQL. A transfer is an object too, and its key is an id
// that the caller chose. There is no transaction over two objects. Instead a transfer proceeds in steps, each
// of which may be repeated:
//
//	Transfer "t1"                    Account "ann"               Account "bob"
//	  ├─ is there a bob? ──────────────────────────────────────► yes
//	record the intent
//	  ├─ withdraw 30, request t1 ──► balance, ledger, receipt
//	  ├─ deposit 30, request t1 ───────────────────────────────► balance, ledger, receipt
//	record the outcome
//
// Why that is correct:
//
//   - Each half takes effect once. The account stores its balance, a row of the ledger and its receipt under the
//     request's id in one transaction, guarded by the epoch of its shard. A repeated call gets the stored receipt.
//   - A refusal is stored as a receipt, too. If a killed node's call arrives after a repeated call was refused, it is
//     refused as well, even if the account has enough money by then.
//   - Nothing can be refused after the withdrawal: the destination existed before the intent was recorded, and
//     accounts are never closed.
//   - The intent is recorded before anything changes, together with a row in the table of unfinished transfers. The
//     row is deleted with the record of the outcome. An interrupted transfer continues when its caller repeats the
//     call; otherwise the leader of the cluster finds the row and resumes it. It may resume at any step, because the
//     receipts answer the steps that were done.
//
// So every recorded transfer is completed, and the outcome reported to its caller never changes.
//
// # What is not promised
//
//   - Transfers are not isolated. Between its halves a transfer's money is in neither balance: the total is the
//     sum of the balances and of the amounts in flight, which the rows of the ledger show. A reader of two
//     balances may see one of them from before a transfer and the other from after it.
//   - A transfer that stays interrupted for 30 days, the time that receipts are kept, may never be finished. A
//     repeated step may have no receipt by then; the primary key of the ledger refuses it, and an operator has
//     to look into it.
//   - Access is not controlled. Any client that reaches a node's port may withdraw from the accounts. A real
//     bank uses node/mtls and an interceptor that accepts Withdraw and Deposit from nodes alone.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

const (
	startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second
	// retention is the time that receipts are kept.
	retention = 30 * 24 * time.Hour
	// idleAfter is the time that an idle transfer stays in memory.
	idleAfter = 10 * time.Second
	// idleTimeout limits how long PostgreSQL keeps the locks of a transaction that sends no statement, because
	// its process is paused or its host is gone. Transactions here are a few statements with nothing between
	// them.
	idleTimeout = 5 * time.Second
)

//go:embed schema.sql
var tables string

type config struct{ listen, etcd, etcdListen, postgres, nodes, id string }

func main() {
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:47001", "`address` of this node, which the others must reach")
	flag.StringVar(&cfg.etcd, "etcd", "", "`address` of etcd; if there is none, this process runs one")
	flag.StringVar(&cfg.etcdListen, "etcd-listen", "127.0.0.1:2379", "`address` of the etcd of this process")
	flag.StringVar(&cfg.postgres, "postgres", "", "`URL` of the database, postgres://user:password@host/name")
	flag.StringVar(&cfg.nodes, "nodes", "127.0.0.1:47001", "`addresses` of nodes to call, with commas between")
	flag.StringVar(&cfg.id, "id", "", "`id` of the transfer, to repeat one; if there is none, it is a new one")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	run := serve
	if flag.NArg() > 0 {
		run = runOrder
	}
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

const usage = `usage: bank [flags]                           a node, until it is stopped
       bank [flags] open NAME BALANCE         calls one: opens an account
       bank [flags] balance NAME
       bank [flags] transfer FROM TO AMOUNT

Flags:
`

// serve runs a node until ctx ends.
func serve(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, store, err := openDatabase(starting, cfg.postgres)
	if err != nil {
		return err
	}
	// The pool is not closed: Close would wait for a server that does not respond any more.
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
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: "/bank",
		Logger: slogger.New(log)}, n)
	if err != nil {
		return err
	}
	registerAccounts(c, store)
	registerTransfers(c, store)
	if err := c.Start(starting); err != nil {
		return err
	}
	log.Info("ready", "listen", n.AdvertiseAddress(), "etcd", cfg.etcd)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var resuming sync.WaitGroup
	resuming.Go(func() { (&resumer{c, db, log}).run(ctx) })
	select {
	case <-ctx.Done():
	case <-n.Done(): // its listener failed
	}
	stop()
	resuming.Wait() // before another node leads
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(n.Err(), c.Stop(stopping))
}

// openDatabase connects to the database and creates the tables that do not exist.
func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, *postgres.Store, error) {
	if url == "" {
		return nil, nil, errors.New("which database? give -postgres postgres://user:password@host/name")
	}
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("-postgres: %w", err)
	}
	if err := postgres.CreateTables(ctx, db, ""); err != nil {
		return nil, nil, err
	}
	if _, err := db.Exec(ctx, tables); err != nil {
		return nil, nil, err
	}
	store, err := postgres.New(postgres.Config{DB: db, Retention: retention, IdleTimeout: idleTimeout})
	return db, store, err
}

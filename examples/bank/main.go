// Command bank moves money between accounts that are on different nodes, and neither makes nor loses any, whichever
// process is killed at whichever moment.
//
//	go run ./examples/bank -postgres postgres://user:password@host/name
//	go run ./examples/bank open ann 100
//	go run ./examples/bank open bob 100
//	go run ./examples/bank transfer ann bob 30
//	go run ./examples/bank balance bob
//
// The first is a node, with an etcd of its own; the others call it. With -etcd and a -listen of its own, further
// processes join it, and -nodes a,b,c names those that are called.
//
// An account is an object with its balance in PostgreSQL; so is a transfer, and its key is the id that its caller
// chose. There is no transaction over two objects. In its place a transfer takes steps, each of which may be repeated:
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
//   - A refusal is a receipt, too. A call that a killed node sent, and that arrives after a repeated one was
//     refused, is refused as well, though there may be money by then.
//   - After the withdrawal nothing can be refused any more: bob was there before the intent was recorded, and
//     accounts are never closed.
//   - The intent is recorded before anything is changed, with a row in the table of unfinished transfers, which is
//     deleted with the record of the outcome. A transfer that was interrupted goes on when its caller repeats the
//     call; if nobody does, the leader of the cluster finds the row and resumes it. Where it stood does not matter:
//     the steps that were done are answered by their receipts.
//
// So every transfer that was recorded comes to an end, and what its caller was answered does not change.
//
// Not promised:
//
//   - Isolation. Between its halves a transfer's money is in neither balance: the total is the balances and what is
//     in flight, which the rows of the ledger show. A reader of two balances may see one of them before and the
//     other one after the same transfer.
//   - That a transfer is finished which was interrupted for as long as receipts are kept, 30 days. What it repeats
//     then may have no receipt any more; the ledger's primary key refuses it, and a person has to look.
//   - That only transfers withdraw: any client of a node's port may call the accounts. A real bank has node/mtls, and
//     an interceptor that lets Withdraw and Deposit come from nodes alone.
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
	// retention is for how long receipts are kept.
	retention = 30 * 24 * time.Hour
	// idleAfter is how long a transfer stays in memory.
	idleAfter = 10 * time.Second
	// idleTimeout is for how long a process that stands still, or whose host is gone, holds the rows that its transaction
	// has locked: a transaction is a few statements, with nothing between them.
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
		run = order
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

// serve is one node, until ctx ends.
func serve(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, store, err := openDatabase(starting, cfg.postgres)
	if err != nil {
		return err
	}
	// The pool is left to the end of the process: Close would wait for a server that does not answer any more.
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

// openDatabase connects, and makes the tables where they do not exist.
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

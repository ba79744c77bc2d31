//go:build unix

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/node"
)

// workerEnv makes a copy of the test binary a worker. It holds the configuration.
const workerEnv = "GOVERSE_INTEGRATION_WORKER"

// workerConfig configures a worker.
type workerConfig struct {
	Etcd, Postgres string
	TTL            int
	InEtcd         bool // the checkpoint is in etcd, not in the handler's transaction
	// Deadline is that of the session in PostgreSQL of a worker without etcd.
	Deadline time.Duration
	// From is the address that a worker without etcd connects from; "" for any.
	From string
}

// workerName names the election and the processor.
const workerName = "orders"

// These signals control a worker; its actions are recorded in the database.
const (
	resignSignal = syscall.SIGUSR1 // resign, and queue again
	cancelSignal = syscall.SIGUSR2 // end the processor only
	effectSignal = syscall.SIGHUP  // try the effect "mail/<n>", n from 1 up
)

// The tables of the workers. Each effect records its event, the token under which it was written, and the
// process.
const workerTables = `
create table events (seq bigint primary key);
create table effects (number bigserial, seq bigint not null, token bigint not null, pid int not null);
create table mails (name text not null, pid int not null);
create table tries (name text not null, pid int not null, ran bool not null);`

func workerProgram(encoded string) int {
	if err := runWorker(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runWorker runs a worker until SIGTERM: a node that turns events into effects while it leads.
func runWorker(encoded string) error {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	if cfg.Etcd == "" {
		return runWorkerAlone(cfg)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, resignSignal, cancelSignal, effectSignal)
	pool, err := pgxpool.New(ctx, cfg.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: procs.Prefix,
		LeaderElectionTTL: cfg.TTL,
		Logger:            hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})}, n)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	p, err := newOrders(c, processor.Election(c.Elections(), workerName), cfg, pool)
	if err != nil {
		return errors.Join(err, c.Stop(ctx))
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(running); err != nil {
			fmt.Fprintln(os.Stderr, "processor:", err)
		}
		fmt.Fprintln(os.Stderr, "the processor has ended")
	})
	for mails := 0; ctx.Err() == nil; {
		select {
		case what := <-asked:
			switch what {
			case resignSignal:
				if e, err := c.Elections().Stand(workerName); err == nil {
					_ = e.Resign(ctx) // nothing to do if it does not lead
				}
			case cancelSignal:
				cancel()
			case effectSignal:
				mails++
				if err := mail(ctx, c.Once, pool, "mail/"+strconv.Itoa(mails)); err != nil {
					fmt.Fprintln(os.Stderr, "effect:", err)
				}
			}
		case <-ctx.Done():
		}
	}
	wg.Wait()
	stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return c.Stop(stopping)
}

// newOrders returns the processor of a worker. c is nil without etcd.
func newOrders(c *cluster.Cluster, leads processor.LeaderLock, cfg workerConfig,
	pool *pgxpool.Pool) (*processor.Processor[int64], error) {
	inDatabase, err := newCheckpoints(pool, cfg.Deadline)
	if err != nil {
		return nil, err
	}
	pc := processor.Config[int64]{Name: workerName, Source: eventsTable{pool}, Checkpoint: inDatabase, BatchSize: 20,
		PollInterval: time.Millisecond, LeaderLock: leads,
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})}
	pc.Handler = func(ctx context.Context, e processor.Event[int64]) error {
		_, err := postgres.Tx(ctx).Exec(ctx, "insert into effects (seq, token, pid) values ($1, $2, $3)", e.Value,
			processor.TokenFrom(ctx), os.Getpid())
		return err
	}
	if cfg.InEtcd {
		pc.Checkpoint = c.Checkpoints()
		pc.Handler = func(ctx context.Context, e processor.Event[int64]) error {
			_, err := pool.Exec(ctx, "insert into effects (seq, token, pid) values ($1, 0, $2)", e.Value, os.Getpid())
			return err
		}
	}
	return processor.New(pc)
}

// newCheckpoints returns the checkpoints in the database. A frozen worker blocks the checkpoint for no longer than its
// session: in PostgreSQL, for the deadline; in etcd, 0 here, for 2 s.
func newCheckpoints(pool *pgxpool.Pool, deadline time.Duration) (*postgres.Checkpoint, error) {
	return postgres.New(postgres.Config{DB: pool, IdleTimeout: cmp.Or(deadline, 2*time.Second)})
}

// eventsTable is the table of events. One writer fills it in order, with a transaction for each event, so that
// no event appears before another one with a smaller number.
type eventsTable struct{ pool *pgxpool.Pool }

func (s eventsTable) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int64], error) {
	last := int64(0)
	if after != "" {
		var err error
		if last, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return nil, err
		}
	}
	rows, err := s.pool.Query(ctx, "select seq from events where seq > $1 order by seq limit $2", last, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e processor.Event[int64], err error) {
		err = row.Scan(&e.Value)
		e.Position = processor.Position(strconv.FormatInt(e.Value, 10))
		return e, err
	})
}

// runOnce runs an effect at most once in the cluster.
type runOnce func(ctx context.Context, name string, fn func(context.Context, int64) ([]byte, error)) (once.Result,
	error)

// mail is an effect that must take place only once.
func mail(ctx context.Context, run runOnce, pool *pgxpool.Pool, name string) error {
	result, err := run(ctx, name, func(ctx context.Context, _ int64) ([]byte, error) {
		_, err := pool.Exec(ctx, "insert into mails values ($1, $2)", name, os.Getpid())
		return nil, err
	})
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "insert into tries values ($1, $2, $3)", name, os.Getpid(), result.Ran)
	return err
}

// startWorker starts a worker process, without waiting for it.
func startWorker(t *testing.T, cfg workerConfig) *procs.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startWorkerProgram(t, self, cfg)
}

// startWorkerProgram starts a worker of a test program, such as that of an older release.
func startWorkerProgram(t *testing.T, program string, cfg workerConfig) *procs.Process {
	t.Helper()
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return kit.Start(t, "worker", program, nil, []string{workerEnv + "=" + string(encoded)})
}

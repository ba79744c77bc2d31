//go:build unix

package integration

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
)

// runWorkerAlone runs a worker that has PostgreSQL and no etcd, until SIGTERM: a processor behind a lock.
// resignSignal ends the processor and starts it again; cancelSignal ends it.
func runWorkerAlone(cfg workerConfig) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, resignSignal, cancelSignal)
	pool, err := pgxpool.New(ctx, cfg.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.Postgres, Deadline: cfg.Deadline, Logger: log})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "has a session")
	p, err := newOrders(nil, processor.Lock(lockpg.New(session), workerName), cfg, pool)
	if err != nil {
		return err
	}
	for goesOn := true; goesOn && ctx.Err() == nil; {
		running, cancel := context.WithCancel(ctx)
		var ended sync.WaitGroup
		ended.Go(func() {
			if err := p.Run(running); err != nil {
				fmt.Fprintln(os.Stderr, "processor:", err)
			}
		})
		select {
		case what := <-asked:
			goesOn = what == resignSignal
		case <-ctx.Done():
		}
		cancel()
		ended.Wait()
	}
	fmt.Fprintln(os.Stderr, "the processor has ended")
	<-ctx.Done()
	stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return session.Close(stopping)
}

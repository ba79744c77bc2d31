//go:build unix

package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	oncepg "github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
)

// connectFrom returns the configuration of a pool whose connections come from the worker's address.
func (c workerConfig) connectFrom() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(c.Postgres)
	if err != nil || c.From == "" {
		return cfg, err
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.From)}}
	cfg.ConnConfig.DialFunc = dialer.DialContext
	return cfg, nil
}

// runWorkerAlone runs a worker that has PostgreSQL and no etcd, until SIGTERM: a processor behind a lock.
// resignSignal ends the processor and starts it again; cancelSignal ends it; effectSignal tries an effect.
func runWorkerAlone(cfg workerConfig) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, resignSignal, cancelSignal, effectSignal)
	from, err := cfg.connectFrom()
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, from)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	session, err := pgsession.Open(ctx, pgsession.Config{Deadline: cfg.Deadline, Logger: log,
		Connect: func(context.Context) (*pgx.ConnConfig, error) { return from.ConnConfig, nil }})
	if err != nil {
		return err
	}
	effects, err := oncepg.New(session, oncepg.Config{DB: pool, Logger: log})
	if err != nil {
		return err
	}
	if err := effects.CreateTable(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "has a session")
	p, err := newOrders(nil, processor.Lock(lockpg.New(session), workerName), cfg, pool)
	if err != nil {
		return err
	}
	end := runInBackground(ctx, p)
	for mails := 0; ctx.Err() == nil; {
		select {
		case what := <-asked:
			switch what {
			case resignSignal:
				end()
				end = runInBackground(ctx, p)
			case cancelSignal:
				end()
			case effectSignal:
				mails++
				if err := mail(ctx, effects.Once, pool, "mail/"+strconv.Itoa(mails)); err != nil {
					fmt.Fprintln(os.Stderr, "effect:", err)
				}
			}
		case <-ctx.Done():
		}
	}
	end()
	stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return session.Close(stopping)
}

// runInBackground runs a processor until ctx ends or the returned function is called, which waits for its end.
func runInBackground(ctx context.Context, p *processor.Processor[int64]) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := p.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "processor:", err)
		}
		fmt.Fprintln(os.Stderr, "the processor has ended")
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

//go:build unix

package pgsession_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	oncepg "github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// workerEnv makes this program a worker of TestFaults. It holds the configuration.
const workerEnv = "GOVERSE_PGSESSION_WORKER"

func TestMain(m *testing.M) {
	if config := os.Getenv(workerEnv); config != "" {
		if err := work(config); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// workerConfig configures a worker.
type workerConfig struct {
	URL, Name, History, Ledger string
	Effects                    history.EffectWork
	// Clock is that of the session.
	Clock clockChange
	// Hold is the least time for which the long lock is held, unless it is lost.
	Hold time.Duration
	// WithoutFence makes a mutant: increments are not guarded by the lock.
	WithoutFence bool
}

// clockChange changes the clock of a worker's session: the wall clock jumps, and from then on both clocks run at Rate
// times the rate of the machine's.
type clockChange struct {
	Jump time.Duration
	Rate float64
}

// movedClock is a clock that can be changed. It is safe for concurrent use.
type movedClock struct {
	mu          sync.Mutex
	since, real deadline.Instant // what it and the machine's clock showed at the last change
	rate        float64
}

func newMovedClock() *movedClock {
	now := deadline.Now()
	return &movedClock{since: now, real: now, rate: 1}
}

func (c *movedClock) now() deadline.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(deadline.Now())
}

func (c *movedClock) at(real deadline.Instant) deadline.Instant {
	scale := func(passed int64) int64 { return int64(float64(passed) * c.rate) }
	return deadline.Instant{Mono: c.since.Mono + scale(real.Mono-c.real.Mono),
		Wall: c.since.Wall + scale(real.Wall-c.real.Wall)}
}

func (c *movedClock) change(to clockChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	real := deadline.Now()
	c.since, c.real, c.rate = c.at(real), real, to.Rate
	c.since.Wall += int64(to.Jump)
}

// work takes locks, increments counters and runs effects until the process is killed or standard input ends. Each line
// of standard input changes the clock.
func work(encoded string) (err error) {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	clock := newMovedClock()
	clock.change(cfg.Clock)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var c clockChange
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			clock.change(c)
		}
	}()
	file, err := os.Create(cfg.History)
	if err != nil {
		return err
	}
	defer file.Close()
	ledger, err := history.OpenLedger(cfg.Ledger)
	if err != nil {
		return err
	}
	defer ledger.Close()
	connections, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return err
	}
	connections.MaxConns = 6
	pool, err := pgxpool.NewWithConfig(ctx, connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	var session *pgsession.Session
	for session == nil {
		if session, err = pgsession.OpenWithClock(ctx, pgsession.Config{URL: cfg.URL, Deadline: faultsDeadline,
			Owner: cfg.Name}, clock.now); err != nil && !wait.For(ctx, 10*time.Millisecond) {
			return nil
		}
	}
	rec := history.NewRecorder(file, cfg.Name)
	err = workIn(ctx, cfg, rec, session, pool, ledger)
	stopping, done := context.WithTimeout(context.Background(), patience)
	defer done()
	return errors.Join(err, session.Close(stopping), rec.Stop())
}

// workIn works in a session until ctx ends.
func workIn(ctx context.Context, cfg workerConfig, rec *history.Recorder, session *pgsession.Session,
	pool *pgxpool.Pool, ledger *history.Ledger) error {
	effects, err := oncepg.New(session, oncepg.Config{DB: pool})
	if err != nil {
		return err
	}
	fence := func(ctx context.Context, tx pgx.Tx, h lock.Held) error { return lockpg.Fence(ctx, tx, h) }
	if cfg.WithoutFence {
		fence = func(context.Context, pgx.Tx, lock.Held) error { return nil }
	}
	locks := rec.Locks(cfg.Name, lockpg.New(session))
	counting := rec.NewRowWork(cfg.Name, pool, fence, countedLocks...)
	var working sync.WaitGroup
	for range 3 {
		working.Go(func() { locks.Work(ctx, counting, random()) })
	}
	working.Go(func() { holdLong(ctx, locks, cfg.Hold) })
	working.Go(func() { rec.Effects(cfg.Name, effects, ledger).Work(ctx, cfg.Effects, random()) })
	working.Wait()
	return nil
}

func random() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// holdLong holds a lock for longer than faults last, and for least, again and again, until ctx ends.
func holdLong(ctx context.Context, locks *history.Locks, least time.Duration) {
	for ctx.Err() == nil {
		h, err := locks.Acquire(ctx, history.LockRequest{Name: longLock})
		if err != nil {
			continue
		}
		lasts, cancel := context.WithTimeout(ctx, max(least, faultsDeadline+rand.N(4*faultsDeadline)))
		select {
		case <-lasts.Done():
		case <-h.Context().Done():
		}
		cancel()
		release, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = h.Release(release) // a lost lock returns an error, and the history records the loss
		done()
	}
}

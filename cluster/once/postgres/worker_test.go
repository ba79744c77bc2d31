//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/pace"
)

// The environment that makes this program a worker: it attempts an effect, or with workerHang stands still in it.
const (
	workerURL, workerEffect, workerHang = "GOVERSE_ONCE_URL", "GOVERSE_ONCE_EFFECT", "GOVERSE_ONCE_HANG"

	hangOnce, hangTx = "once", "tx"
)

// work attempts one effect, which adds its process to the table ran.
func work(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := pgsession.Config{URL: url, Owner: fmt.Sprint("worker ", os.Getpid())}
	if os.Getenv(workerHang) != "" {
		cfg.Deadline = pace.TTL(time.Second) // others take over when it was killed
	}
	session, err := pgsession.Open(ctx, cfg)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	effects, err := postgres.New(session, postgres.Config{DB: pool})
	if err != nil {
		return err
	}
	if err := effects.CreateTable(ctx); err != nil {
		return err
	}
	hang := func() {
		fmt.Println("inside")
		<-ctx.Done()
	}
	name := os.Getenv(workerEffect)
	if os.Getenv(workerHang) == hangTx {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := effects.OnceTx(ctx, tx, name, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_, err := tx.Exec(ctx, "insert into ran values ($1)", os.Getpid())
				return nil, err
			})
			hang()
			return err
		})
	}
	_, err = effects.Once(ctx, name, func(ctx context.Context, _ int64) ([]byte, error) {
		if os.Getenv(workerHang) == hangOnce {
			hang()
		}
		_, err := pool.Exec(ctx, "insert into ran values ($1)", os.Getpid())
		return fmt.Append(nil, os.Getpid()), err
	})
	if err != nil {
		return err
	}
	return session.Close(ctx)
}

// startWorker starts a worker in a process of its own.
func (s *testBed) startWorker(effect, hang string) *fault.Process {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerURL+"="+s.url, workerEffect+"="+effect, workerHang+"="+hang)
	p, err := fault.StartProcess(cmd)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, p.Close()) })
	return p
}

// killInside kills a worker within its effect, and returns its name.
func (s *testBed) killInside(effect, hang string) (owner string) {
	s.Helper()
	p := s.startWorker(effect, hang)
	s.eventually(func() bool { return strings.Contains(p.Output(), "inside") || !p.Running() })
	require.True(s, p.Running(), p.Output())
	_, err := p.Kill()
	require.NoError(s, err)
	return fmt.Sprint("worker ", p.Pid())
}

// createRan makes the table of effects that took place.
func (s *testBed) createRan() {
	s.Helper()
	s.exec("create table ran (pid int)")
}

// countRan returns the number of effects that took place.
func (s *testBed) countRan() int {
	s.Helper()
	return s.count("select count(*) from ran")
}

// Twenty processes attempt one effect: one runs it.
func TestManyProcessesTryAndOneRuns(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url, 0)
	s.createRan()
	var workers []*fault.Process
	for range 20 {
		workers = append(workers, s.startWorker("mail", ""))
	}
	for _, w := range workers {
		code, err := w.Exit(s.ctx)
		require.NoError(t, err)
		require.Zero(t, code, w.Output())
	}
	require.Equal(t, 1, s.countRan())
	r, err := a.Once(s.ctx, "mail", never)
	require.NoError(t, err)
	require.NotEmpty(t, r.Value)
}

// A process is killed while its effect runs. All others see an unknown outcome, until it is resolved.
func TestKilledInsideIsUnknown(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	for _, tookPlace := range []bool{true, false} {
		effect := fmt.Sprint("mail ", tookPlace)
		owner := s.killInside(effect, hangOnce)
		_, err := a.Once(s.ctx, effect, never)
		token := requireUnknown(t, err, owner)
		_, err = b.Once(s.ctx, effect, never)
		require.Equal(t, token, requireUnknown(t, err, owner))
		require.NoError(t, b.Resolve(s.ctx, effect, token, tookPlace, []byte("found out")))
		r, err := a.Once(s.ctx, effect, func(context.Context, int64) ([]byte, error) {
			require.False(t, tookPlace)
			return []byte("again"), nil
		})
		require.NoError(t, err)
		if tookPlace {
			require.Equal(t, "found out", string(r.Value))
		} else {
			require.Equal(t, "again", string(r.Value))
			require.Equal(t, 2, r.Attempt)
		}
	}
}

// A process is killed before it commits: nothing happened, and the next one runs the effect without further ado.
func TestKilledBeforeTheCommit(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url, 0)
	s.createRan()
	s.killInside("payment", hangTx)
	r, err := a.tx(s.ctx, "payment", a.addRan, nil)
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 1, r.Attempt)
	require.Equal(t, 1, s.countRan())
}

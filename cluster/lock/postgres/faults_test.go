//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/pgserver"
	"github.com/goverse/goverse/internal/wait"
)

var faults = flag.Int("faults", 12, "the number of faults in TestFaults; 500 is the full run")

const faultsDeadline = 800 * time.Millisecond

var faultNames = []string{"a", "b", "c"}

// faultyProcess is a session behind a relay, with recorded locks.
type faultyProcess struct {
	relay   *fault.Relay
	url     string
	session *pgsession.Session
	locks   *history.Locks
}

// ledger counts the guarded increments, by outcome.
type ledger struct{ accepted, refused, unknown, stale atomic.Int64 }

func startFaulty(t *testing.T, db *pgserver.Server, rec *history.Recorder, i int) *faultyProcess {
	t.Helper()
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	u, err := url.Parse(db.URL())
	require.NoError(t, err)
	u.Host = r.Address()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: u.String(), Deadline: faultsDeadline})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
	})
	return &faultyProcess{r, u.String(), s, rec.Locks(fmt.Sprint("process ", i), postgres.New(s))}
}

// increment increments the counter of a lock in a transaction that the lock fences. The row keeps the largest token.
func (p *faultyProcess) increment(ctx context.Context, l *ledger, h *history.Hold) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = conn.Close(ended)
	}()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	err = postgres.Fence(ctx, tx, h.Held)
	if errors.Is(err, lock.ErrLost) {
		l.refused.Add(1)
	}
	if err != nil {
		return err
	}
	var before int64
	err = tx.QueryRow(ctx, `WITH old AS (SELECT token FROM counter WHERE name = $1 FOR UPDATE)
		UPDATE counter SET value = value + 1, token = $2 FROM old WHERE name = $1 RETURNING old.token`,
		h.Name(), h.Token()).Scan(&before)
	if err != nil {
		return err
	}
	if before > h.Token() {
		l.stale.Add(1)
	}
	if err := tx.Commit(ctx); err != nil {
		l.unknown.Add(1)
		return err
	}
	l.accepted.Add(1)
	return nil
}

// work takes one lock after the other until ctx ends. It goes on for a while under a lock that it has lost.
func (p *faultyProcess) work(ctx context.Context, l *ledger) {
	for ctx.Err() == nil {
		request := history.LockRequest{Name: faultNames[rand.IntN(len(faultNames))], Shared: rand.IntN(4) == 0,
			Try: rand.IntN(4) == 0}
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		h, err := p.locks.Acquire(attempt, request)
		cancel()
		if err == nil && h != nil {
			for range 1 + rand.IntN(5) {
				if request.Shared {
					wait.For(ctx, 10*time.Millisecond)
				} else {
					_ = p.increment(context.WithoutCancel(ctx), l, h) // it goes on, also when it has lost the lock
				}
			}
			release, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = h.Release(release)
			done()
		}
		wait.For(ctx, time.Duration(rand.Int64N(int64(20*time.Millisecond))))
	}
}

// hitOnce lets one fault happen, and returns its kind.
func hitOnce(t *testing.T, db *pgserver.Server, processes []*faultyProcess) string {
	p := processes[rand.IntN(len(processes))]
	lasts := time.Duration(rand.Int64N(int64(3 * faultsDeadline)))
	switch n := rand.IntN(40); {
	case n < 12:
		p.relay.Reset(fault.Both)
		return "connections cut"
	case n < 22:
		way := []fault.Direction{fault.ToTarget, fault.FromTarget, fault.Both}[n%3]
		p.relay.Blackhole(way)
		wait.For(t.Context(), lasts)
		require.NoError(t, p.relay.Heal())
		return "cut off " + way.String()
	case n < 28:
		p.relay.Delay(fault.Both, lasts/10)
		wait.For(t.Context(), lasts)
		require.NoError(t, p.relay.Heal())
		return "delayed"
	case n < 36:
		conn, err := pgx.Connect(t.Context(), db.URL())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.3`)
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
		return "pg_terminate_backend"
	case n < 38:
		require.NoError(t, db.RestartFast())
		return "restart, fast"
	default:
		require.NoError(t, db.RestartImmediately())
		return "restart, immediate"
	}
}

// Four processes take locks and increment counters under them, while connections are cut, delayed and terminated and
// the server is restarted. The history is judged as that of locks in etcd: no two hold one lock, tokens grow, first
// come is first served. No increment of a former holder is committed after one of a later holder, and none is lost.
func TestFaults(t *testing.T) {
	db := pgserver.StartForTest(t)
	admin, err := pgx.Connect(t.Context(), db.URL())
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `CREATE TABLE counter (name text PRIMARY KEY, value bigint, token bigint);
		INSERT INTO counter VALUES ('a', 0, 0), ('b', 0, 0), ('c', 0, 0)`)
	require.NoError(t, err)
	require.NoError(t, admin.Close(t.Context()))
	rec := history.Record(t, history.Limits{})
	var processes []*faultyProcess
	for i := range 4 {
		processes = append(processes, startFaulty(t, db, rec, i))
	}
	ctx, end := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() { end(); working.Wait() })
	var l ledger
	for _, p := range processes {
		for range 2 {
			working.Go(func() { p.work(ctx, &l) })
		}
	}
	count := map[string]int{}
	for range *faults {
		count[hitOnce(t, db, processes)]++
		wait.For(t.Context(), time.Duration(rand.Int64N(int64(faultsDeadline/2))))
	}
	end()
	working.Wait()
	last, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, p := range processes {
		require.NoError(t, p.locks.AcquireEach(last, faultNames...), "every lock can be had")
	}
	require.NoError(t, rec.Stop())
	var sum int64
	admin, err = pgx.Connect(t.Context(), db.URL())
	require.NoError(t, err)
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT sum(value)::bigint FROM counter").Scan(&sum))
	require.NoError(t, admin.Close(t.Context()))
	t.Logf("%v; increments: %d accepted, %d refused, %d of unknown outcome", count, l.accepted.Load(), l.refused.Load(),
		l.unknown.Load())
	require.Zero(t, l.stale.Load(), "committed under a smaller token than one before it")
	require.GreaterOrEqual(t, sum, l.accepted.Load(), "increments are lost")
	require.LessOrEqual(t, sum, l.accepted.Load()+l.unknown.Load(), "increments are doubled")
}

//go:build unix

package pgsession_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	oncepg "github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/pgserver"
	"github.com/goverse/goverse/internal/wait"
)

var faults = flag.Int("faults", 12, "the number of faults in TestFaults; 500 is the full run")

const (
	patience       = time.Minute
	faultsDeadline = 800 * time.Millisecond
	// longLock is held for long; the others guard counters.
	longLock = "long"
)

var countedLocks = []string{"a", "b", "c"}

// faultyWorld has workers that faults hit.
type faultyWorld struct {
	*testing.T
	db      *pgserver.Server
	dir     string
	cfg     workerConfig // of the next worker
	slots   []*slot
	files   []string // recordings
	rec     *history.Recorder
	started int
	count   map[string]int
}

// slot is a place for one worker, which reaches the server through a relay.
type slot struct {
	relay  *fault.Relay
	name   string // of its worker
	worker *fault.Process
	in     io.WriteCloser
}

func newFaultyWorld(t *testing.T, cfg workerConfig) *faultyWorld {
	t.Helper()
	w := &faultyWorld{T: t, db: pgserver.StartForTest(t), dir: t.TempDir(), cfg: cfg, count: map[string]int{}}
	w.cfg.Ledger = filepath.Join(w.dir, "ledger")
	w.cfg.Effects = history.EffectWork{From: history.Now(), Every: 250 * time.Millisecond, Takes: 50 * time.Millisecond}
	file, err := os.Create(w.newFile())
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	w.rec = history.NewRecorder(file, "test")
	w.withPool(func(ctx context.Context, pool *pgxpool.Pool) {
		require.NoError(t, history.CreateRows(ctx, pool, countedLocks...))
		_, effects := w.openSession(ctx, pool)
		require.NoError(t, effects.CreateTable(ctx))
	})
	for range 4 {
		r, err := fault.NewRelay(w.db.Address())
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close() })
		s := &slot{relay: r}
		w.slots = append(w.slots, s)
		w.start(s)
		t.Cleanup(func() { require.NoError(t, s.worker.Close()) })
	}
	return w
}

// newFile creates the file of a recording. A worker may be killed before it records.
func (w *faultyWorld) newFile() string {
	w.Helper()
	name := filepath.Join(w.dir, fmt.Sprint("history ", len(w.files)))
	require.NoError(w, os.WriteFile(name, nil, 0o600))
	w.files = append(w.files, name)
	return name
}

// withPool calls f with a pool of connections that no fault hits, and a context that ends in time.
func (w *faultyWorld) withPool(f func(ctx context.Context, pool *pgxpool.Pool)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, err := pgxpool.New(ctx, w.db.URL())
	require.NoError(w, err)
	defer pool.Close()
	f(ctx, pool)
}

// openSession opens a session of the test's own, which is closed with the test.
func (w *faultyWorld) openSession(ctx context.Context, pool *pgxpool.Pool) (*lockpg.Locks, *oncepg.Effects) {
	w.Helper()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: w.db.URL(), Deadline: faultsDeadline, Owner: "test"})
	require.NoError(w, err)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
	})
	effects, err := oncepg.New(s, oncepg.Config{DB: pool})
	require.NoError(w, err)
	return lockpg.New(s), effects
}

// start starts a worker. The clocks of its session run a hundredth too fast or too slow, or right.
func (w *faultyWorld) start(s *slot) {
	w.Helper()
	w.started++
	cfg := w.cfg
	s.name = fmt.Sprint("worker ", w.started)
	cfg.Name, cfg.History = s.name, w.newFile()
	if cfg.Clock.Rate == 0 {
		cfg.Clock.Rate = randomRate()
	}
	u, err := url.Parse(w.db.URL() + "&connect_timeout=2")
	require.NoError(w, err)
	u.Host = s.relay.Address()
	cfg.URL = u.String()
	encoded, err := json.Marshal(cfg)
	require.NoError(w, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(encoded))
	s.in, err = cmd.StdinPipe()
	require.NoError(w, err)
	s.worker, err = fault.StartProcess(cmd)
	require.NoError(w, err)
}

func randomRate() float64 { return []float64{0.99, 1, 1.01}[rand.IntN(3)] }

// workerFault is a fault that hits the worker of a slot, and has ended when hit returns.
type workerFault struct {
	name  string
	often int
	hit   func(w *faultyWorld, s *slot, lasts time.Duration)
}

func cutOff(way fault.Direction) workerFault {
	return workerFault{"cut off " + way.String(), 3, func(w *faultyWorld, s *slot, lasts time.Duration) {
		s.relay.Blackhole(way)
		wait.For(w.Context(), lasts)
		require.NoError(w, s.relay.Heal())
	}}
}

func moveClock(name string, change func() clockChange) workerFault {
	return workerFault{name, 2, func(w *faultyWorld, s *slot, _ time.Duration) {
		line, err := json.Marshal(change())
		require.NoError(w, err)
		_, err = s.in.Write(append(line, '\n'))
		require.NoError(w, err)
	}}
}

var stopped = workerFault{"SIGSTOP", 8, func(w *faultyWorld, s *slot, lasts time.Duration) {
	_, err := s.worker.Freeze()
	require.NoError(w, err, s.worker.Output())
	wait.For(w.Context(), lasts)
	_, err = s.worker.Thaw()
	require.NoError(w, err)
}}

var workerFaults = []workerFault{
	{"SIGKILL", 12, func(w *faultyWorld, s *slot, _ time.Duration) {
		_, err := s.worker.Kill()
		require.NoError(w, err, s.worker.Output())
		w.start(s)
	}},
	stopped,
	{"connections cut", 6, func(_ *faultyWorld, s *slot, _ time.Duration) { s.relay.Reset(fault.Both) }},
	cutOff(fault.Both), cutOff(fault.ToTarget), cutOff(fault.FromTarget),
	{"delayed", 3, func(w *faultyWorld, s *slot, lasts time.Duration) {
		s.relay.Delay(fault.Both, lasts/10)
		wait.For(w.Context(), lasts)
		require.NoError(w, s.relay.Heal())
	}},
	{"pg_terminate_backend", 6, func(w *faultyWorld, _ *slot, _ time.Duration) {
		conn, err := pgx.Connect(w.Context(), w.db.URL())
		require.NoError(w, err)
		_, err = conn.Exec(w.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.3`)
		require.NoError(w, err)
		require.NoError(w, conn.Close(w.Context()))
	}},
	moveClock("clock jumps forwards", func() clockChange { return clockChange{rand.N(4 * faultsDeadline), randomRate()} }),
	moveClock("clock jumps backwards", func() clockChange { return clockChange{-rand.N(time.Hour), randomRate()} }),
	moveClock("clock runs fast", func() clockChange { return clockChange{0, 1.01} }),
	moveClock("clock runs slowly", func() clockChange { return clockChange{0, 0.99} }),
	{"restart, fast", 1, func(w *faultyWorld, _ *slot, _ time.Duration) { require.NoError(w, w.db.RestartFast()) }},
	{"restart, immediate", 1, func(w *faultyWorld, _ *slot, _ time.Duration) {
		require.NoError(w, w.db.RestartImmediately())
	}},
	{"server killed", 1, func(w *faultyWorld, _ *slot, _ time.Duration) {
		w.db.Kill()
		require.NoError(w, w.db.Restart())
	}},
}

// hitOnce lets one of the faults happen.
func (w *faultyWorld) hitOnce(of []workerFault, lasts time.Duration) {
	var all []workerFault
	for _, f := range of {
		all = append(all, slices.Repeat([]workerFault{f}, f.often)...)
	}
	f := all[rand.IntN(len(all))]
	f.hit(w, w.slots[rand.IntN(len(w.slots))], lasts)
	w.count[f.name]++
	wait.For(w.Context(), rand.N(faultsDeadline/2))
}

// judge ends the workers, and returns the verdict about all that was recorded.
func (w *faultyWorld) judge() history.Verdict {
	w.Helper()
	for _, s := range w.slots {
		require.NoError(w, s.in.Close())
	}
	w.withPool(func(ctx context.Context, pool *pgxpool.Pool) {
		for _, s := range w.slots {
			code, err := s.worker.Exit(ctx)
			require.NoError(w, err, s.worker.Output())
			require.Zero(w, code, s.worker.Output())
		}
		locks, effects := w.openSession(ctx, pool)
		require.NoError(w, w.rec.Locks("test", locks).AcquireEach(ctx, append(countedLocks, longLock)...))
		ledger, err := history.OpenLedger(w.cfg.Ledger)
		require.NoError(w, err)
		require.NoError(w, w.rec.Effects("test", effects, ledger).ResolveAll(ctx, w.cfg.Effects))
		require.NoError(w, ledger.Close())
		require.NoError(w, w.rec.RecordRows(ctx, pool))
	})
	require.NoError(w, w.rec.Stop())
	h, err := history.ReadFiles(append(w.files, w.cfg.Ledger)...)
	require.NoError(w, err)
	return history.Check(h, history.Limits{})
}

// Processes take locks, increment counters under them, and run effects, while they are killed and stopped, their
// connections are cut and delayed, their clocks are moved, and the server is restarted and killed. No two hold one
// lock, first come is first served, the counters are linearizable, no increment of a former holder is accepted, and
// each effect takes place once.
func TestFaults(t *testing.T) {
	w := newFaultyWorld(t, workerConfig{})
	for range *faults {
		w.hitOnce(workerFaults, rand.N(3*faultsDeadline))
	}
	v := w.judge()
	t.Logf("%d faults: %v\n%v", *faults, w.count, v)
	require.True(t, v.OK())
	require.NotZero(t, v.Seen.Increments)
	require.NotZero(t, v.Seen.Ran)
}

// awaitGrant waits until the long lock is granted with a token other than before, and returns its holder's slot.
func (w *faultyWorld) awaitGrant(before int64) (s *slot, token int64) {
	w.Helper()
	w.withPool(func(ctx context.Context, pool *pgxpool.Pool) {
		for s == nil {
			var owner string
			err := pool.QueryRow(ctx, `SELECT c.token, s.owner FROM goverse.claim c JOIN goverse.session s ON s.id = c.session
				WHERE c.name = 'lock/' || $1 AND c.token <> $2`, longLock, before).Scan(&token, &owner)
			if i := slices.IndexFunc(w.slots, func(s *slot) bool { return s.name == owner }); err == nil && i >= 0 {
				s = w.slots[i]
			}
			require.NoError(w, ctx.Err(), "no worker gets the lock")
			wait.For(ctx, time.Millisecond)
		}
	})
	return s, token
}

// The judge detects a worker whose clock stands nearly still while it is cut off.
func TestMutantWithASlowClock(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t, workerConfig{Clock: clockChange{Rate: 0.05}, Hold: patience})
	token := int64(0)
	for range 4 {
		var s *slot
		s, token = w.awaitGrant(token)
		s.relay.Blackhole(fault.Both)
		w.awaitGrant(token)
		wait.For(w.Context(), faultsDeadline) // both record that they hold it
		require.NoError(t, s.relay.Heal())
	}
	v := w.judge()
	t.Log(v.Summary())
	require.NotEmpty(t, v.FindingsOf(history.Overlap))
}

// The judge detects workers that go on incrementing without a fence after they have lost their locks.
func TestMutantWithoutAFence(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t, workerConfig{WithoutFence: true})
	for range 4 {
		w.hitOnce([]workerFault{stopped}, 3*faultsDeadline)
	}
	v := w.judge()
	t.Log(v.Summary())
	require.NotEmpty(t, v.FindingsOf(history.Stale))
}

//go:build unix

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

var pgRounds = flag.Int("postgres.rounds", 1,
	"how often each fault hits the leader in TestPostgresAlone; from 10 on, its stated times are judged, too")

// newWorldAlone returns a world of workers without etcd.
func newWorldAlone(t *testing.T, deadline time.Duration) *workerWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(4+*pgRounds)*time.Minute)
	t.Cleanup(cancel)
	db := kit.Database(t)
	pool, err := pgxpool.New(ctx, db)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f := &workerWorld{T: t, ctx: ctx, pool: pool, cfg: workerConfig{Postgres: db, Deadline: deadline}}
	checkpoints, err := newCheckpoints(pool, 0)
	require.NoError(t, err)
	require.NoError(t, checkpoints.CreateTables(ctx))
	_, err = pool.Exec(ctx, workerTables)
	require.NoError(t, err)
	return f
}

// relayed is a worker that reaches the database through a relay, or, without one, from an address of its own.
type relayed struct {
	*procs.Process
	relay *fault.Relay
	from  string
}

func (f *workerWorld) startRelayed() *relayed {
	f.Helper()
	u, err := url.Parse(f.cfg.Postgres)
	require.NoError(f, err)
	r, err := fault.NewRelay(u.Host)
	require.NoError(f, err)
	f.Cleanup(func() { _ = r.Close() })
	u.Host = r.Address()
	cfg := f.cfg
	cfg.Postgres = u.String()
	return &relayed{Process: startWorker(f.T, cfg), relay: r}
}

// awaitClaims waits until n processes lead or wait to lead.
func (f *workerWorld) awaitClaims(n int64) {
	f.Helper()
	procs.Await(f.T, workPatience, fmt.Sprintf("%d claims", n), func() error {
		var count int64
		err := f.pool.QueryRow(f.ctx, "select count(*) from goverse.claim").Scan(&count)
		if err == nil && count != n {
			err = fmt.Errorf("there are %d", count)
		}
		return err
	})
}

// aloneFault is a fault that hits the leader. The standby must handle an event within the bound on an idle machine.
type aloneFault struct {
	name  string
	hit   func(f *workerWorld, leader *relayed)
	bound func(deadline time.Duration) time.Duration
	undo  func(f *workerWorld, leader *relayed) // nil for nothing
	ends  bool                                  // the process has ended, or does nothing any more: it is replaced
}

func sessionBackends(f *workerWorld, leader *relayed) {
	_, err := f.pool.Exec(f.ctx, `select pg_terminate_backend(l.pid) from pg_locks l join goverse.session s
		on l.locktype = 'advisory' and l.classid::bigint = s.id >> 32 and l.objid::bigint = s.id & 4294967295
		where s.owner like '%/' || $1`, fmt.Sprint(leader.Pid()))
	require.NoError(f, err)
}

func soon(time.Duration) time.Duration { return 50 * time.Millisecond }

func afterDeadline(d time.Duration) time.Duration { return d + 300*time.Millisecond }

func afterTwo(d time.Duration) time.Duration { return 2*d + 500*time.Millisecond }

// afterTwoAndABeat is the bound where the leader's heartbeats still arrive, and their answers do not: one more counts.
func afterTwoAndABeat(d time.Duration) time.Duration { return afterTwo(d) + d/5 }

func heal(f *workerWorld, w *relayed) { require.NoError(f, w.relay.Heal()) }

var aloneFaults = []aloneFault{
	{"release", func(f *workerWorld, w *relayed) { w.Signal(f.T, resignSignal) }, soon, nil, false},
	{"cancel", func(f *workerWorld, w *relayed) { w.Signal(f.T, cancelSignal) }, soon,
		func(f *workerWorld, w *relayed) { w.Signal(f.T, syscall.SIGTERM) }, true},
	{"SIGTERM", func(f *workerWorld, w *relayed) { w.Signal(f.T, syscall.SIGTERM) }, soon, nil, true},
	{"SIGKILL", func(f *workerWorld, w *relayed) { w.Kill(f.T) }, afterDeadline, nil, true},
	{"connections cut", func(_ *workerWorld, w *relayed) { w.relay.Reset(fault.Both) }, afterDeadline, nil, false},
	{"pg_terminate_backend", sessionBackends, afterDeadline, nil, false},
	{"cut off", func(_ *workerWorld, w *relayed) { w.relay.Blackhole(fault.Both) }, afterTwo, heal, false},
	{"hears nothing", func(_ *workerWorld, w *relayed) { w.relay.Blackhole(fault.FromTarget) }, afterTwoAndABeat, heal,
		false},
	{"is not heard", func(_ *workerWorld, w *relayed) { w.relay.Blackhole(fault.ToTarget) }, afterTwo, heal, false},
	{"SIGSTOP", func(f *workerWorld, w *relayed) { w.Freeze(f.T) }, afterTwo,
		func(f *workerWorld, w *relayed) { w.Thaw(f.T) }, false},
}

// Of two processes without etcd one processes events. Whatever becomes of it, the other goes on from the checkpoint
// within the stated time.
func TestPostgresAlone(t *testing.T) {
	t.Parallel()
	t.Run("OneExecutes", func(t *testing.T) { newWorldAlone(t, 0).oneExecutes("has a session") })
	t.Run("RapidCycles", func(t *testing.T) { newWorldAlone(t, shortDeadline).rapidCycles() })
	takeOverEach(t, aloneFaults, (*workerWorld).startRelayed)
}

// shortDeadline is the deadline of sessions that are taken over soon.
const shortDeadline = 600 * time.Millisecond

// takeOverEach lets each fault hit the leader of two workers that start starts.
func takeOverEach(t *testing.T, faults []aloneFault, start func(*workerWorld) *relayed) {
	deadlines := []time.Duration{shortDeadline}
	if *pgRounds >= 10 {
		deadlines = append(deadlines, pgsession.DefaultDeadline)
	}
	for _, deadline := range deadlines {
		t.Run(deadline.String(), func(t *testing.T) {
			for _, fault := range faults {
				t.Run(fault.name, func(t *testing.T) { takeOver(t, fault, deadline, start) })
			}
		})
	}
}

func takeOver(t *testing.T, fault aloneFault, deadline time.Duration, start func(*workerWorld) *relayed) {
	f := newWorldAlone(t, deadline)
	workers := []*relayed{start(f), start(f)}
	stop := f.startEvents()
	var took []time.Duration
	var late []string
	meter := pace.StartMeter(t)
	for range *pgRounds {
		f.awaitClaims(2)
		i, token := f.leader([]*procs.Process{workers[0].Process, workers[1].Process})
		w := workers[i]
		f.await("the leader handles events", "select count(*) > $1 from effects", f.number("select count(*) from effects"))
		meter.StartLap()
		began := time.Now()
		fault.hit(f, w)
		f.awaitShortly("the other handles an event", "select exists (select from effects where token > $1)", token)
		took = append(took, time.Since(began))
		bound := fault.bound(deadline)
		if *pgRounds < 10 {
			bound = 3*bound + 2*time.Second // beside other tests, sessions may be lost without a fault
		}
		if scaled := meter.Scale(bound); took[len(took)-1] > scaled {
			late = append(late, fmt.Sprintf("round %d: %v, bound %v", len(took), took[len(took)-1], scaled))
		}
		require.NoError(t, f.judge())
		if fault.undo != nil {
			fault.undo(f, w)
		}
		if fault.ends {
			workers[i] = start(f)
		}
	}
	stop()
	f.awaitAll()
	require.NoError(t, f.judge())
	require.EqualValues(t, f.last, f.number("select count(distinct seq) from effects"))
	slices.Sort(took)
	t.Logf("deadline %v, %s: the other handles an event after %v in the median, %v at most, in %d rounds; %d events",
		deadline, fault.name, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond),
		len(took), f.last)
	require.Empty(t, late)
}

// awaitShortly is await with short pauses, for a time that is measured.
func (f *workerWorld) awaitShortly(what, sql string, args ...any) {
	f.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(workPatience); ; <-tick.C {
		if f.number("select ("+sql+")::int", args...) != 0 {
			return
		}
		if time.Now().After(end) {
			require.NoError(f, errors.New(what+": not within "+workPatience.String()))
		}
	}
}

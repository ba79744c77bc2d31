//go:build unix

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

var processorCycles = flag.Int("processor.cycles", 50,
	"how often the lead changes in TestProcessors/RapidCycles and TestPostgresAlone/RapidCycles; 200 in the full run")

// workPatience is longer than a frozen worker keeps locks in the database.
const workPatience = 30 * time.Second

// lastingTTL is the TTL of workers that must not lose their sessions on a busy machine, in seconds.
const lastingTTL = 6

// workerWorld holds workers and the etcd and PostgreSQL that they share. The database serves to judge them.
type workerWorld struct {
	*testing.T
	ctx  context.Context
	cfg  workerConfig
	pool *pgxpool.Pool
	etcd *clientv3.Client

	addressed int // workers with an address of their own

	mu   sync.Mutex
	last int64 // the last event written
}

func newWorkerWorld(t *testing.T) *workerWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	db := kit.Database(t)
	pool, err := pgxpool.New(ctx, db)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	server := kit.StartEtcd(t, procs.Etcd37)
	etcd := etcdtest.Dial(t, server.Endpoint)
	f := &workerWorld{T: t, ctx: ctx, pool: pool, etcd: etcd, cfg: workerConfig{Etcd: server.Endpoint, Postgres: db,
		TTL: 2}}
	checkpoints, err := newCheckpoints(pool, 0)
	require.NoError(t, err)
	require.NoError(t, checkpoints.CreateTables(ctx))
	_, err = pool.Exec(ctx, workerTables)
	require.NoError(t, err)
	return f
}

func (f *workerWorld) start() *procs.Process {
	f.Helper()
	return startWorker(f.T, f.cfg)
}

// write adds n events.
func (f *workerWorld) write(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		if _, err := f.pool.Exec(f.ctx, "insert into events values ($1)", f.last+1); err != nil {
			f.Error(err)
			return
		}
		f.last++
	}
}

// startEvents adds an event about every millisecond, until the returned function is called.
func (f *workerWorld) startEvents() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for every := time.NewTicker(time.Millisecond); ; {
			select {
			case <-every.C:
				f.write(1)
			case <-done:
				every.Stop()
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(done); <-ended })
	f.Cleanup(stop)
	return stop
}

func (f *workerWorld) number(sql string, args ...any) (n int64) {
	f.Helper()
	require.NoError(f, f.pool.QueryRow(f.ctx, sql, args...).Scan(&n), sql)
	return n
}

func (f *workerWorld) await(what string, sql string, args ...any) time.Duration {
	f.Helper()
	return procs.Await(f.T, workPatience, what, func() error {
		if f.number("select ("+sql+")::int", args...) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// awaitQueue waits until n candidates are in the election's queue.
func (f *workerWorld) awaitQueue(n int64) {
	f.Helper()
	keys, err := state.NewKeys(procs.Prefix)
	require.NoError(f, err)
	procs.Await(f.T, workPatience, fmt.Sprintf("%d candidates", n), func() error {
		got, err := f.etcd.Get(f.ctx, keys.Elections().QueuePrefix(workerName), clientv3.WithPrefix(),
			clientv3.WithCountOnly())
		if err == nil && got.Count != n {
			err = fmt.Errorf("there are %d", got.Count)
		}
		return err
	})
}

// awaitAll waits until all events that were written have taken effect. Many may have piled up while no worker led.
func (f *workerWorld) awaitAll() {
	f.Helper()
	const step = 1000
	for next := f.number("select coalesce(max(seq), 0) from effects"); next < f.last; {
		next = min(next+step, f.last)
		f.await(fmt.Sprintf("event %d has its effect", next), "select coalesce(max(seq), 0) >= $1 from effects", next)
	}
}

// awaitEffectBy waits for a new effect by the process.
func (f *workerWorld) awaitEffectBy(p *procs.Process) time.Duration {
	f.Helper()
	after := f.number("select coalesce(max(seq), 0) from effects")
	return f.await(fmt.Sprintf("process %d handles an event", p.Pid()),
		"select exists (select from effects where pid = $1 and seq > $2)", p.Pid(), after)
}

// judge checks, in one snapshot of the database, that each event up to the checkpoint has taken effect once, in
// order and under tokens that grow, and that no later event has.
func (f *workerWorld) judge() error {
	var position, count, distinct, last, back int64
	err := f.pool.QueryRow(f.ctx, `select coalesce((select nullif(position, '')::bigint from goverse_checkpoints
			where name = $1), 0),
		count(*), count(distinct seq), coalesce(max(seq), 0),
		count(*) filter (where seq <= before or token < under)
		from (select seq, token, lag(seq) over w as before, lag(token) over w as under
			from effects window w as (order by number)) as effects`,
		workerName).Scan(&position, &count, &distinct, &last, &back)
	if err != nil {
		return err
	}
	if count != position || distinct != position || last != position {
		return fmt.Errorf("the checkpoint is at %d, there are %d effects of %d events, the last of %d", position, count,
			distinct, last)
	}
	if back != 0 {
		return fmt.Errorf("%d effects come after one of a later event, or of a later leader", back)
	}
	return nil
}

// leader returns the worker that handled the last event, and its token.
func (f *workerWorld) leader(workers []*procs.Process) (i int, token int64) {
	f.Helper()
	f.await("somebody leads", "select exists (select from effects)")
	var pid int
	require.NoError(f, f.pool.QueryRow(f.ctx, "select pid, token from effects order by number desc limit 1").Scan(&pid,
		&token))
	i = slices.IndexFunc(workers, func(w *procs.Process) bool { return w.Pid() == pid })
	require.GreaterOrEqual(f, i, 0, "process %d is no worker", pid)
	return i, token
}

// The subtests run one after the other, because each keeps a core busy. Other tests run in parallel.
func TestProcessors(t *testing.T) {
	t.Parallel()
	t.Run("Judge", theJudge)
	t.Run("Standby", standby)
	t.Run("CheckpointInEtcd", checkpointInEtcd)
	t.Run("OneExecutes", func(t *testing.T) {
		f := newWorkerWorld(t)
		f.cfg.TTL = lastingTTL
		f.oneExecutes("part of the cluster")
	})
	t.Run("RapidCycles", func(t *testing.T) { newWorkerWorld(t).rapidCycles() })
}

// The judge detects a missing event and a repeated one.
func theJudge(t *testing.T) {
	f := newWorkerWorld(t)
	set := func(sql string) {
		_, err := f.pool.Exec(f.ctx, sql)
		require.NoError(t, err)
	}
	require.NoError(t, f.judge())
	set("insert into goverse_checkpoints (name, position, token, version) values ('" + workerName + "', '3', 1, 1)")
	set("insert into effects (seq, token, pid) values (1, 1, 1), (3, 1, 1)")
	require.ErrorContains(t, f.judge(), "2 effects", "one is missing")
	set("truncate effects; insert into effects (seq, token, pid) values (1, 1, 1), (2, 1, 1), (3, 2, 1)")
	require.NoError(t, f.judge())
	set("insert into effects (seq, token, pid) values (3, 1, 1)")
	require.ErrorContains(t, f.judge(), "4 effects of 3 events", "one is doubled")
	set("truncate effects; insert into effects (seq, token, pid) values (1, 2, 1), (2, 1, 1), (3, 2, 1)")
	require.ErrorContains(t, f.judge(), "1 effects come after", "one under an older token")
	set("truncate effects; insert into effects (seq, token, pid) values (1, 1, 1), (3, 1, 1), (2, 1, 1)")
	require.ErrorContains(t, f.judge(), "1 effects come after", "one out of order")
	set("truncate effects; insert into effects (seq, token, pid) values (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)")
	require.ErrorContains(t, f.judge(), "the last of 4", "one is beyond the checkpoint")
}

// Of two processes, one processes events. The other stands by, and continues from the checkpoint when the first
// one resigns, ends its processor, stops, or is killed.
func standby(t *testing.T) {
	f := newWorkerWorld(t)
	f.cfg.TTL = lastingTTL
	a := f.start()
	f.startEvents()
	f.awaitEffectBy(a)
	b := f.start()
	goesOn := func(leads, waits *procs.Process) {
		t.Helper()
		before := f.number("select count(*) from effects where pid = $1", waits.Pid())
		f.await("300 more events", "select count(*) >= $1 from effects", f.number("select count(*) from effects")+300)
		require.Equal(t, before, f.number("select count(*) from effects where pid = $1", waits.Pid()),
			"who stands by handles nothing")
		require.NoError(t, f.judge())
	}
	f.awaitQueue(2)
	goesOn(a, b)

	a.Signal(t, resignSignal)
	t.Logf("resigned: the next handles an event after %v", f.awaitEffectBy(b))
	f.awaitQueue(2)
	goesOn(b, a)

	b.Signal(t, cancelSignal)
	t.Logf("the processor was cancelled: the next handles an event after %v", f.awaitEffectBy(a))
	b.AwaitOutput(t, workPatience, "the processor has ended")
	goesOn(a, b)

	c := f.start()
	f.awaitQueue(2)
	a.Signal(t, syscall.SIGTERM)
	t.Logf("SIGTERM: the next handles an event after %v", f.awaitEffectBy(c))
	require.Zero(t, a.Exit(t, workPatience))

	d := f.start()
	f.awaitQueue(2)
	c.Kill(t)
	t.Logf("SIGKILL: the next handles an event after %v", f.awaitEffectBy(d))
	require.NoError(t, f.judge())
}

// With the checkpoint in etcd, apart from the effects, no event is missed. Only events of the last batch,
// without a checkpoint yet, are handled again.
func checkpointInEtcd(t *testing.T) {
	f := newWorkerWorld(t)
	f.cfg.InEtcd = true
	workers := []*procs.Process{f.start(), f.start(), f.start()}
	stop := f.startEvents()
	const kills = 5
	for range kills {
		i, _ := f.leader(workers)
		w := workers[i]
		w.Kill(t)
		workers[i] = f.start()
		seen := f.number("select max(seq) from effects")
		f.await("another goes on", "select exists (select from effects where pid <> $1 and seq > $2)", w.Pid(), seen)
	}
	stop()
	f.awaitAll()
	require.Zero(t, f.number("select count(*) from events where seq not in (select seq from effects)"),
		"nothing is missed")
	again := f.number("select count(*) - count(distinct seq) from effects")
	require.LessOrEqual(t, again, int64(kills*20), "of each leader's last batch at most")
	t.Logf("%d kills, %d events, %d handled again", kills, f.last, again)
}

// oneExecutes lets two workers attempt each of some side effects, which one of them executes. ready is what a worker
// prints once it can.
func (f *workerWorld) oneExecutes(ready string) {
	workers := []*procs.Process{f.start(), f.start()}
	for _, w := range workers {
		w.AwaitOutput(f.T, workPatience, ready)
	}
	for n := int64(1); n <= 20; n++ {
		for _, w := range workers {
			w.Signal(f.T, effectSignal)
		}
		f.await("both have tried", "select count(*) = $1 from tries", 2*n)
	}
	require.EqualValues(f, 20, f.number("select count(*) from mails"))
	require.EqualValues(f, 20, f.number("select count(distinct name) from mails"))
	require.EqualValues(f, 20, f.number("select count(*) from tries where ran"))
}

// rapidCycles changes the leader rapidly: most leaders resign, some are killed, and some are paused past their TTL.
// After each change the checkpoint matches the effects. At the end each event has taken effect once.
func (f *workerWorld) rapidCycles() {
	workers := []*procs.Process{f.start(), f.start(), f.start()}
	stop := f.startEvents()
	kills, pauses := 0, 0
	for cycle := range *processorCycles {
		i, token := f.leader(workers)
		w := workers[i]
		switch {
		case cycle%40 == 39:
			w.Freeze(f.T)
			pauses++
		case cycle%20 == 19:
			w.Kill(f.T)
			workers[i] = f.start()
			kills++
		default:
			w.Signal(f.T, resignSignal)
		}
		f.await("a new leader handles an event", "select coalesce(max(token), 0) > $1 from effects", token)
		require.NoError(f, f.judge(), "after cycle %d", cycle)
		if cycle%40 == 39 {
			w.Thaw(f.T)
		}
	}
	stop()
	f.awaitAll()
	require.NoError(f, f.judge())
	require.EqualValues(f, f.last, f.number("select count(distinct seq) from effects"))
	terms := f.number("select count(distinct token) from effects")
	require.Greater(f, terms, int64(*processorCycles))
	f.Logf("%d cycles (%d kills, %d pauses past the TTL), %d terms, %d events", *processorCycles, kills, pauses, terms,
		f.last)
}

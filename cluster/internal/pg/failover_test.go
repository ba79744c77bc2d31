//go:build unix

package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/elector"
	leases "github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/cluster/objects/state"
	states "github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/cluster/processor"
	events "github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// gap measures the longest time between two successes since the last reset.
type gap struct {
	mu            sync.Mutex
	last          time.Time
	longest       time.Duration
	times, failed int
}

func (g *gap) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.longest, g.times, g.failed = time.Now(), 0, 0, 0
}

func (g *gap) add(ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ok {
		g.failed++
		return
	}
	g.longest, g.last, g.times = max(g.longest, time.Since(g.last)), time.Now(), g.times+1
}

func (g *gap) read() (longest time.Duration, times, failed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.longest, time.Since(g.last)), g.times, g.failed
}

// each calls do repeatedly, from several goroutines, until ctx ends.
func each(ctx context.Context, wg *sync.WaitGroup, workers int, every time.Duration, do func(worker int)) {
	for i := range workers {
		wg.Go(func() {
			for tick := time.NewTicker(every); ; {
				select {
				case <-tick.C:
					do(i)
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		})
	}
}

type object struct{ key string }

func (object) Service() string { return "test.Counters" }
func (o object) Key() string   { return o.key }
func (object) Epoch() int64    { return 1 }

// The standby is promoted, and new connections reach it. The former primary lives on, read-only, with all its
// connections open. Electors keep leading, events are handled and states are saved, after seconds and with a
// few lines in the log.
func TestFailoverThatLeavesConnectionsOpen(t *testing.T) {
	primary := pgserver.StartForTest(t)
	standby, err := primary.StartStandby("-c", "fsync=off")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	var now atomic.Pointer[pgserver.Server]
	now.Store(primary)
	var log logtest.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(options string) *pgxpool.Pool {
		cfg, err := pgxpool.ParseConfig(primary.URL() + "&pool_max_conns=8" + options)
		require.NoError(t, err)
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, now.Load().Address())
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	pool, reader := connect(""), connect("") // the latter only reads, so nothing is ever refused there
	_, err = pool.Exec(ctx, `create table events (xid xid8 not null default pg_current_xact_id(), id bigserial,
		body jsonb not null, primary key (xid, id)); create table handled (n bigserial)`)
	require.NoError(t, err)
	require.NoError(t, leases.CreateTable(ctx, pool, nil))
	require.NoError(t, states.CreateTables(ctx, pool, ""))

	work, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()

	// Two electors.
	var leading, ops, handled gap
	var electors [2]*elector.Elector
	for i := range electors {
		store, err := leases.New(leases.Config{DB: pool, Name: "it"})
		require.NoError(t, err)
		electors[i], err = elector.New(elector.Config{LeaseStore: store, CandidateID: fmt.Sprint("e", i),
			LeaseDuration: 2 * time.Second, Logger: log.Logger()})
		require.NoError(t, err)
		wg.Go(func() { _ = electors[i].Run(work) })
	}
	each(work, &wg, 1, 5*time.Millisecond, func(int) {
		if electors[0].IsLeader() || electors[1].IsLeader() {
			leading.add(true)
		}
	})

	// Six objects.
	store, err := states.New(states.Config{DB: pool, Logger: log.Logger()})
	require.NoError(t, err)
	var counts [6]*state.State[*wrapperspb.Int64Value]
	for i := range counts {
		counts[i], err = state.Load(ctx, store, object{fmt.Sprint(i)}, &wrapperspb.Int64Value{})
		require.NoError(t, err)
	}
	each(work, &wg, len(counts), 10*time.Millisecond, func(i int) {
		_, err := state.Do(work, counts[i], "", func(context.Context) (*wrapperspb.Int64Value, error) {
			counts[i].Value().Value++
			return counts[i].Value(), nil
		})
		if work.Err() != nil {
			return
		}
		ops.add(err == nil)
		if err != nil && !errors.Is(err, state.ErrUnavailable) {
			assert.ErrorIs(t, err, state.ErrStale)
			_ = counts[i].Reload(work)
		}
	})

	// Events, and their processor.
	source, err := events.NewSource(events.SourceConfig{DB: reader, Table: "events"})
	require.NoError(t, err)
	checkpoint, err := events.New(events.Config{DB: pool})
	require.NoError(t, err)
	require.NoError(t, checkpoint.CreateTables(ctx))
	p, err := processor.New(processor.Config[[]byte]{Name: "it", Source: source, Checkpoint: checkpoint,
		Logger: log.Logger(), PollInterval: 10 * time.Millisecond,
		Handler: func(ctx context.Context, _ processor.Event[[]byte]) error {
			_, err := events.Tx(ctx).Exec(ctx, "insert into handled default values")
			handled.add(err == nil)
			return err
		}})
	require.NoError(t, err)
	wg.Go(func() { _ = p.Run(work) })
	writer := connect("&target_session_attrs=read-write")
	each(work, &wg, 1, 10*time.Millisecond, func(int) {
		if _, err := writer.Exec(work, "insert into events (body) values ('{}')"); err != nil {
			writer.Reset() // the user's own part
		}
	})

	all := []*gap{&leading, &ops, &handled}
	progress := func(what string, n int) {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			for i, g := range all {
				_, times, _ := g.read()
				require.Greater(c, times, n, "%s: %d", what, i)
			}
		}, 20*time.Second, 5*time.Millisecond, what)
	}
	progress("before", 20)
	for _, g := range all {
		g.reset()
	}
	said := len(log.String())
	_, err = pool.Exec(ctx, "alter system set default_transaction_read_only = on")
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "select pg_reload_conf()")
	require.NoError(t, err)
	require.NoError(t, standby.Promote(ctx, primary))
	now.Store(standby)
	_, _, before := ops.read()
	progress("after", 100)
	for i, what := range []string{"no elector led", "no state was saved", "no event was handled"} {
		longest, times, failed := all[i].read()
		t.Logf("%s for %v; %d succeeded, %d failed", what, longest.Round(time.Millisecond), times, failed)
		assert.Less(t, longest, 6*time.Second, what)
	}
	lines := strings.Split(strings.TrimSpace(log.String()[said:]), "\n")
	t.Logf("logged %d lines:\n%s", len(lines), strings.Join(lines[:min(len(lines), 20)], "\n"))
	assert.Less(t, len(lines), 12)
	_, _, failed := ops.read()
	t.Logf("of the states that were not saved, %d were after the standby took writes", failed-before)
	assert.Less(t, failed-before, 100, "however long it took the standby, on this machine, to take writes")
}

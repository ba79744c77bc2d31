//go:build unix

package postgres_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	leases "github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// program is one process: a pool, an elector over a row, and a group of processors of which the elector is the leader
// lock.
type program struct {
	*elector.Elector
	group processor.Group
	stop  context.CancelFunc // of the elector alone
	ended chan error         // receives the error of the group
}

// electorBed has what the processes share.
type electorBed struct {
	*testBed
	source            *growing
	checkpoints, work string // tables
}

var groupNames = []string{"views", "audit"}

func (s *testBed) electorBed(t *testing.T) *electorBed {
	t.Helper()
	b := &electorBed{testBed: s, source: &growing{},
		checkpoints: "shared_" + strconv.FormatInt(s.last.Add(1), 10),
		work:        "work_" + strconv.FormatInt(s.last.Add(1), 10)}
	ctx := etcdtest.Context(t)
	require.NoError(t, leases.CreateTable(ctx, s.pool, pgx.Identifier{b.work + "_leases"}))
	checkpoint, err := postgres.New(postgres.Config{DB: s.pool, Table: b.checkpoints})
	require.NoError(t, err)
	require.NoError(t, checkpoint.CreateTables(ctx))
	execute(t, s.pool, "create table "+b.work+" (n bigserial, processor text, event int, token bigint)")
	return b
}

// start starts a process.
func (b *electorBed) start(t *testing.T, id string) *program {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), b.server.URL())
	require.NoError(t, err)
	store, err := leases.New(leases.Config{DB: pool, Table: pgx.Identifier{b.work + "_leases"}, Name: "views"})
	require.NoError(t, err)
	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: id, LeaseDuration: 2 * time.Second,
		ReleaseOnCancel: true})
	require.NoError(t, err)
	checkpoint, err := postgres.New(postgres.Config{DB: pool, Table: b.checkpoints})
	require.NoError(t, err)
	p := &program{Elector: e, ended: make(chan error, 1)}
	for _, name := range groupNames {
		one, err := processor.New(processor.Config[int]{Name: name, Source: b.source, Checkpoint: checkpoint,
			LeaderLock: e, BatchSize: 7, PollInterval: 5 * time.Millisecond,
			Backoff: processor.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond},
			Handler: func(ctx context.Context, event processor.Event[int]) error {
				assert.Equal(t, elector.TokenFrom(ctx), processor.TokenFrom(ctx))
				_, err := postgres.Tx(ctx).Exec(ctx, "insert into "+b.work+" (processor, event, token) values ($1, $2, $3)",
					name, event.Value, processor.TokenFrom(ctx))
				return err
			}})
		require.NoError(t, err)
		p.group = append(p.group, one)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	all, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.ended <- p.group.Run(all) })
	wg.Go(func() { assert.NoError(t, e.Run(ctx)) })
	t.Cleanup(func() {
		end()
		stop()
		wg.Wait()
		pool.Close()
	})
	return p
}

// leads reports whether any processor of the process handles events.
func (p *program) leads() bool {
	return p.IsLeader() || p.group.Status()[0].Leading || p.group.Status()[1].Leading
}

// leader waits until a process leads, and returns it.
func leader(t *testing.T, programs ...*program) *program {
	t.Helper()
	at := -1
	require.Eventually(t, func() bool {
		at = slices.IndexFunc(programs, func(p *program) bool { return p.IsLeader() })
		return at >= 0
	}, patience, time.Millisecond)
	return programs[at]
}

// check waits until all events are handled. It checks that each took effect once, in order and under tokens that only
// grow, and that the checkpoints have the token of the process that leads.
func (b *electorBed) check(t *testing.T, programs ...*program) {
	t.Helper()
	ctx := etcdtest.Context(t)
	for at, name := range groupNames {
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(programs, func(p *program) bool {
				return string(p.group.Status()[at].Position) == strconv.Itoa(b.source.size())
			})
		}, patience, time.Millisecond)
		var event int
		var events []int
		var token, last, stored int64
		rows, err := b.pool.Query(ctx, "select event, token from "+b.work+" where processor = $1 order by n", name)
		require.NoError(t, err)
		_, err = pgx.ForEachRow(rows, []any{&event, &token}, func() error {
			events = append(events, event)
			require.GreaterOrEqual(t, token, last)
			last = token
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, upTo(b.source.size()), events, name)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			require.NoError(c, b.pool.QueryRow(ctx, "select token from "+b.checkpoints+" where name = $1", name).Scan(&stored))
			require.True(c, slices.ContainsFunc(programs, func(p *program) bool { return p.Token() == stored }), name)
		}, patience, 5*time.Millisecond)
		require.GreaterOrEqual(t, stored, last)
	}
}

// Processes share a lease, and each has one elector for two processors. The lead is handed over while events are
// handled, and then expires because the row is locked. Each event takes effect once, under the elector's token.
func (s *testBed) overElectors(t *testing.T) {
	b := s.electorBed(t)
	first, second := b.start(t, "a"), b.start(t, "b")
	b.source.grow(100)
	b.check(t, first, second)

	b.source.grow(2000)
	before, other := leader(t, first, second), first
	if before == first {
		other = second
	}
	before.stop()
	err := <-before.ended
	require.ErrorIs(t, err, elector.ErrEnded)
	require.ErrorIs(t, err, processor.ErrNoLock)
	b.check(t, other)

	third := b.start(t, "c")
	token := leader(t, other, third).Token()
	row := s.begin(t)
	execute(t, row, "select 1 from "+b.work+"_leases for update")
	require.Eventually(t, func() bool { return !other.leads() && !third.leads() }, patience, time.Millisecond)
	b.source.grow(100)
	require.NoError(t, row.Rollback(etcdtest.Context(t)))
	b.check(t, other, third)
	require.Greater(t, leader(t, other, third).Token(), token)
}

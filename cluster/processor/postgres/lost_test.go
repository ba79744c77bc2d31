//go:build unix

package postgres_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// lossy is a database that carries commits out and loses the answer of every second one.
type lossy struct {
	*pgxpool.Pool
	commits, lost atomic.Int64
}

func (d *lossy) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := d.Pool.BeginTx(ctx, opts)
	return lossyTx{tx, d}, err
}

type lossyTx struct {
	pgx.Tx
	in *lossy
}

func (t lossyTx) Commit(ctx context.Context) error {
	err := t.Tx.Commit(ctx)
	if err == nil && t.in.commits.Add(1)%2 == 1 {
		t.in.lost.Add(1)
		return io.ErrUnexpectedEOF
	}
	return err
}

// forgetful does not claim the checkpoint again after a lost answer.
type forgetful struct {
	processor.Checkpoint
	at processor.Mark
}

func (f *forgetful) Claim(ctx context.Context, name string, token int64) (m processor.Mark, err error) {
	if f.at == (processor.Mark{}) {
		f.at, err = f.Checkpoint.Claim(ctx, name, token)
	}
	return f.at, err
}

// Advance has no fence to stop it.
func (f *forgetful) Advance(ctx context.Context, name string, _ processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	now, err := f.Checkpoint.Claim(ctx, name, f.at.Token)
	if err != nil {
		return f.at, err
	}
	next, err := f.Checkpoint.Advance(ctx, name, now, work)
	if err == nil {
		f.at = next
	}
	return f.at, err
}

// lostAnswers handles eight events, of which one is parked, and returns the events that took effect.
func (s *testBed) lostAnswers(t *testing.T, plant func(c processor.Checkpoint) processor.Checkpoint) []int {
	t.Helper()
	db := &lossy{Pool: s.pool}
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { c.DB = db })
	handler, all := s.effects(t)
	p, end := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 8}, Checkpoint: plant(checkpoint),
		BatchSize: 2, MaxAttempts: 1,
		Backoff: processor.Backoff{Min: time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			if e.Value == 5 {
				return processor.ErrPoison
			}
			return handler(ctx, e)
		},
		OnPark: func(ctx context.Context, e processor.Event[int], _ error) error {
			return handler(ctx, processor.Event[int]{Value: -e.Value})
		}})
	require.Eventually(t, func() bool { return p.Status().Position == "8" }, patience, time.Millisecond)
	end()
	require.GreaterOrEqual(t, db.lost.Load(), int64(2))
	parked, err := checkpoint.Parked(etcdtest.Context(t), "views")
	require.NoError(t, err)
	require.Len(t, parked, 1)
	return all()
}

// A commit that was carried out counts even if its answer was lost, for a batch and for a parked event. A
// checkpoint that is not claimed again is noticed.
func (s *testBed) lost(t *testing.T) {
	require.Equal(t, []int{1, 2, 3, 4, -5, 6, 7, 8}, s.lostAnswers(t,
		func(c processor.Checkpoint) processor.Checkpoint { return c }))
	got := s.lostAnswers(t, func(c processor.Checkpoint) processor.Checkpoint { return &forgetful{Checkpoint: c} })
	require.Greater(t, len(got), 8, "some twice")
}

// slow is a database that carries the first claim out only when late is called, and sends no answer.
type slow struct {
	*pgxpool.Pool
	late func() error
}

func (d *slow) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if d.late != nil || !strings.HasPrefix(sql, "insert") {
		return d.Pool.QueryRow(ctx, sql, args...)
	}
	d.late = func() error {
		_, err := d.Exec(context.WithoutCancel(ctx), sql, args...)
		return err
	}
	return silent{}
}

type silent struct{}

func (silent) Scan(...any) error { return io.ErrUnexpectedEOF }

// A claim that chooses its token may be carried out after it was sent again. It then fences no process, whether
// it was the first claim or a later one.
func (s *testBed) lateClaim(t *testing.T) {
	ctx := etcdtest.Context(t)
	db := &slow{Pool: s.pool}
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { c.DB = db })
	to := func(p processor.Position) func(context.Context) (processor.Progress, error) {
		return func(context.Context) (processor.Progress, error) { return processor.Progress{Position: p}, nil }
	}
	for i, p := range []processor.Position{"1", "2"} {
		db.late = nil
		_, err := checkpoint.Claim(ctx, "it", 0)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		m, err := checkpoint.Claim(ctx, "it", 0)
		require.NoError(t, err)
		require.EqualValues(t, i+1, m.Token)
		require.NoError(t, db.late())
		_, err = checkpoint.Advance(ctx, "it", m, to(p))
		require.NoError(t, err)
	}
}

// Of many concurrent claims that choose a token, no two choose the same.
func (s *testBed) foundAtOnce(t *testing.T) {
	ctx := etcdtest.Context(t)
	checkpoint := s.checkpoints(t)
	tokens := make([]int64, 16)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			<-begin
			m, err := checkpoint.Claim(ctx, "it", 0)
			assert.NoError(t, err)
			tokens[i] = m.Token
		})
	}
	close(begin)
	wg.Wait()
	slices.Sort(tokens)
	for i, token := range tokens {
		require.EqualValues(t, i+1, token)
	}
}

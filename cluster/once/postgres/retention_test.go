//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/internal/test/pace"
)

// expire lets the retention of all marks pass that have one.
func (s *testBed) expire() {
	s.Helper()
	s.exec("update goverse.effect set at = at - retention, expires = expires - retention")
}

// What has expired is not remembered, although its mark may not be deleted yet. An unknown outcome never expires.
func TestRetention(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	var n atomic.Int32
	first, err := a.Once(s.ctx, "mail", counts(&n, "first"))
	require.NoError(t, err)
	_, err = a.Once(s.ctx, "failed", fails)
	require.ErrorIs(t, err, errRefused)
	_, err = a.tx(s.ctx, "payment", func(context.Context, pgx.Tx) ([]byte, error) { return nil, nil }, nil)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = a.Once(s.ctx, "unknown", never) })
	found, more, err := b.List(s.ctx, once.Query{})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, found, 4)
	s.expire()

	found, _, err = b.List(s.ctx, once.Query{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, once.Unknown, found[0].State)
	for _, name := range []string{"mail", "failed", "payment"} {
		_, err := b.Look(s.ctx, name)
		require.ErrorIs(t, err, once.ErrNoMark, name)
	}
	r, err := b.Once(s.ctx, "mail", counts(&n, "second"))
	require.NoError(t, err)
	require.Equal(t, "second", string(r.Value))
	require.Equal(t, 1, r.Attempt)
	require.Greater(t, r.Token, first.Token)
	r, err = b.tx(s.ctx, "payment", func(context.Context, pgx.Tx) ([]byte, error) { return nil, nil }, nil)
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 1, r.Attempt)
	_, err = b.Once(s.ctx, "unknown", never)
	token := requireUnknown(t, err, a.owner)
	require.NoError(t, b.Resolve(s.ctx, "unknown", token, true, nil))
	s.expire()
	_, err = b.Look(s.ctx, "unknown")
	require.ErrorIs(t, err, once.ErrNoMark, "it is remembered from the resolution on")
}

// Each kind of call deletes expired marks, a bounded number at a time, and those of unknown outcome never.
func TestExpiredMarksAreDeleted(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	const perBatch, every, expired = postgres.ExpireBatch, postgres.ExpireEvery, 3*postgres.ExpireBatch + 5
	calls := map[string]func(p *process, i int) error{
		"once": func(p *process, i int) error {
			_, err := p.Once(s.ctx, fmt.Sprint("once ", i), func(context.Context, int64) ([]byte, error) { return nil, nil })
			return err
		},
		"transaction": func(p *process, i int) error {
			_, err := p.tx(s.ctx, fmt.Sprint("tx ", i), func(context.Context, pgx.Tx) ([]byte, error) { return nil, nil }, nil)
			return err
		},
	}
	for what, do := range calls {
		p := s.start(s.url, 0)
		require.Panics(t, func() { _, _ = p.Once(s.ctx, what+" unknown", never) })
		s.exec(`insert into goverse.effect (name, state, attempt, token, owner, at, retention, expires)
			select 'expired ' || n, 'done', 1, 1, '', now(), '1 day', now() - interval '1 s'
			from generate_series(1, $1) n`, expired)
		left := expired
		for i := range 3*every + 1 {
			require.NoError(t, do(p, i))
			if i%every == 0 {
				left = max(0, left-perBatch)
			}
			require.Equal(t, left, s.count("select count(*) from goverse.effect where expires < now()"), "%s, call %d", what, i)
		}
		require.Zero(t, left)
		_, err := p.Once(s.ctx, what+" unknown", never)
		require.ErrorIs(t, err, once.ErrUnknown)
	}
}

// The table is made although another process makes it at the time, for longer than the pool's connections wait for
// locks.
func TestTableIsMadeMeanwhile(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url+"&lock_timeout=10", 0)
	s.exec("drop table goverse.effect")
	tx, err := s.admin.Begin(s.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(s.ctx, "select pg_advisory_xact_lock($1)", postgres.TableLock)
	require.NoError(t, err)
	made := make(chan error, 1)
	go func() { made <- a.CreateTable(s.ctx) }()
	s.eventually(func() (waits bool) {
		require.NoError(t, tx.QueryRow(s.ctx, `select exists (select from pg_stat_activity where wait_event_type = 'Lock'
			and datname = current_database() and query_start < clock_timestamp() - interval '200 ms')`).Scan(&waits))
		return waits || len(made) > 0
	})
	require.Empty(t, made)
	require.NoError(t, tx.Commit(s.ctx))
	require.NoError(t, <-made)
}

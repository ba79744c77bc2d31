//go:build unix

package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Published rows are deleted after a while; unpublished and parked ones stay.
func (s *testBed) cleaning(t *testing.T) {
	db, _ := s.database(t)
	ctx := etcdtest.Context(t)
	require.NoError(t, placeOrders(ctx, db, 40))
	source, err := newOutbox(db, nil)
	require.NoError(t, err)
	events, err := source.Read(ctx, "", 1000)
	require.NoError(t, err)
	watched, patient := bounded(t, db)
	source.db = watched
	n := len(events)
	require.Greater(t, n, 10)
	ctx = context.WithoutCancel(ctx) // drops the deadline, too
	require.NoError(t, source.park(ctx, events[2], context.Canceled))
	upTo := events[9].Position

	deleted, err := source.clean(ctx, upTo, time.Hour)
	require.NoError(t, err)
	require.Zero(t, deleted, "all of it is young")
	deleted, err = source.clean(ctx, upTo, 0)
	require.NoError(t, err)
	require.EqualValues(t, 9, deleted)
	left, err := source.Read(ctx, "", 1000)
	require.NoError(t, err)
	require.Equal(t, append(events[2:3:3], events[10:]...), left)
	lag, err := source.Lag(ctx, upTo)
	require.NoError(t, err)
	require.EqualValues(t, n-10, lag)
	_, err = source.clean(ctx, "17", 0)
	require.ErrorIs(t, err, postgres.ErrForeignPosition)
	require.Zero(t, patient(), "a database that falls silent would hold them up forever")
}

// bounded returns a pool of the same database, and a function that counts its statements without a timeout.
func bounded(t *testing.T, db *pgxpool.Pool) (_ *pgxpool.Pool, patient func() int64) {
	t.Helper()
	var trace deadlines
	cfg := db.Config()
	cfg.ConnConfig.Tracer = &trace
	watched, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(watched.Close)
	return watched, trace.missing.Load
}

// deadlines counts statements with a context that has no deadline.
type deadlines struct{ missing atomic.Int64 }

func (d *deadlines) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		d.missing.Add(1)
	}
	return ctx
}

func (d *deadlines) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

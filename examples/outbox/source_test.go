//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/etcdtest"
)

// What was published goes after a while; what was not, and what was parked, stays.
func (s *scene) cleaning(t *testing.T) {
	db, _ := s.database(t)
	ctx := etcdtest.Context(t)
	require.NoError(t, order(ctx, db, 40))
	source, err := newOutbox(db, nil)
	require.NoError(t, err)
	events, err := source.Read(ctx, "", 1000)
	require.NoError(t, err)
	n := len(events)
	require.Greater(t, n, 10)
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
}

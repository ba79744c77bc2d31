//go:build unix

package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/automation/postgres"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/logtest"
)

// A job that is to be parked on a connection that is lost is parked later, and logged as parked when it is.
func (s *testBed) parkedLater(t *testing.T) {
	j := s.newJobs(t, 1)
	var said logtest.Buffer
	var times atomic.Int64
	source := j.source()
	a, end := j.run(automation.Config[int]{Source: source, MaxAttempts: 2, Logger: said.Logger(),
		Execute: func(ctx context.Context, _ automation.Item[int]) error {
			times.Add(1)
			_, err := s.pool.Exec(ctx, "select pg_terminate_backend($1, 10000)", postgres.Tx(ctx).Conn().PgConn().PID())
			if err != nil {
				return err
			}
			return processor.ErrPoison
		}})
	j.eventually(func() bool {
		parked, err := source.Parked(t.Context(), j.table, 10)
		return err == nil && len(parked) == 1
	}, "it is parked")
	j.eventually(func() bool { return a.Status().GivenUp > 0 }, "it is counted")
	end()
	require.EqualValues(t, 1, times.Load(), "no attempt is left")
	require.EqualValues(t, 1, a.Status().GivenUp)
	require.Equal(t, 1, said.Count("item parked"), said.String())
}

//go:build unix

package postgres_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// 10,000 events of a table are one batch: one transaction, in which each takes effect once, in order.
func (s *testBed) largeBatch(t *testing.T) {
	const events = 10_000
	table, checkpoints := s.table(t), s.checkpoints(t)
	_, err := s.pool.Exec(etcdtest.Context(t), "insert into "+table+
		" (body) select to_jsonb(i) from generate_series(1, $1) i", events)
	require.NoError(t, err)
	handle, all := s.effects(t)
	began := time.Now()
	p, end := run(t, processor.Config[[]byte]{Name: "large", Source: s.source(t, table), BatchSize: events,
		Checkpoint: checkpoints, Handler: func(ctx context.Context, e processor.Event[[]byte]) error {
			n, err := strconv.Atoi(string(e.Value))
			if err != nil {
				return err
			}
			return handle(ctx, processor.Event[int]{Position: e.Position, Value: n})
		}})
	require.Eventually(t, func() bool { return p.Status().Handled >= events }, patience, time.Millisecond)
	t.Logf("%d events in one transaction in %v", events, time.Since(began).Round(time.Millisecond))
	end()
	require.EqualValues(t, 1, p.Status().Batches)
	require.Equal(t, upTo(events), all())
}

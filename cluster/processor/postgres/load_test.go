//go:build unix

package postgres_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/processorload"
)

// loaded is a world in which the effects are rows.
func (s *testBed) loaded(t *testing.T, plant func(c processor.Checkpoint, table string) processor.Checkpoint) error {
	table := ""
	checkpoints := s.checkpoints(t, func(c *postgres.Config) { table = c.Table })
	handler, all := s.effects(t)
	return processorload.Run(t, processorload.World{Name: "it", Manager: checkpoints, Undoes: true, Seed: 7,
		Open: func() processor.Checkpoint { return plant(checkpoints, table) },
		Apply: func(ctx context.Context, event int, _ *atomic.Bool) error {
			return handler(ctx, processor.Event[int]{Position: processor.Position(strconv.Itoa(event)), Value: event})
		},
		Effects: func() ([]int, error) { return all(), nil }})
}

// Under load, with each request of an operator and a leader killed during it, or overtaken without notice, each event
// takes effect exactly once, and once more after each rewind. A checkpoint that does not check the token is found.
func (s *testBed) load(t *testing.T) {
	require.NoError(t, s.loaded(t, func(c processor.Checkpoint, _ string) processor.Checkpoint { return c }))
	require.Error(t, s.loaded(t, func(c processor.Checkpoint, table string) processor.Checkpoint {
		return careless{c, table}
	}))
}

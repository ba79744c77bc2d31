package cluster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/internal/etcdtest"
)

// A node that is stopped while it takes its address over has nothing to complain of.
func TestTakeoverThatIsCancelledIsNotLogged(t *testing.T) {
	log := &logBuffer{}
	c := start(t, etcdtest.Start(t), func(cfg *Config) { cfg.Logger = log.logger() })
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	cancel()
	free, err := c.parts.member.removePredecessor(ctx, c.Session(), &state.Member{Address: c.address()})
	require.False(t, free)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, log.String(), "could not take the address over")
}

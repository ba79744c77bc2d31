package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// A node that is stopped while it takes its address over has nothing to complain of.
func TestTakeoverThatIsCancelledIsNotLogged(t *testing.T) {
	log := &logBuffer{}
	c := start(t, etcdtest.Start(t), func(cfg *Config) { cfg.Logger = log.logger() })
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	cancel()
	free, err := c.parts.Load().member.removePredecessor(ctx, inside{c}.Session(), &state.Member{Address: c.address()})
	require.False(t, free)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, log.String(), "could not take the address over")
}

// A predecessor that was too far from etcd for its TTL is not removed: its lease decides.
func TestPredecessorThatWasTooFarIsLeftToItsLease(t *testing.T) {
	log := &logBuffer{}
	c := start(t, etcdtest.Start(t), func(cfg *Config) { cfg.Logger = log.logger() })
	said := false
	far := state.Record{InstanceID: "another", TTL: 10, RoundTripMS: 800}
	_, err := c.parts.Load().member.settle(etcdtest.Context(t), inside{c}.Session(), &state.Member{Address: c.address(),
		Incarnation: 1, Record: far}, &said)
	require.NoError(t, err)
	require.Contains(t, log.String(), errFar.Error())
	near := far
	near.RoundTripMS = 0
	free, err := c.parts.Load().member.settle(etcdtest.Context(t), inside{c}.Session(),
		&state.Member{Address: c.address(), Incarnation: 1, Record: near}, &said)
	require.NoError(t, err)
	require.True(t, free, "one that was near is accused, and found to be gone")
	require.Equal(t, 1, strings.Count(log.String(), errFar.Error()))
}

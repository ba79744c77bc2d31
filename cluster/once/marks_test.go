package once

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/deadline"
	"github.com/goverse/goverse/embedetcd"
)

// A lease that is shared has the retention left for whoever comes last, by either clock: one
// that was set back, or stood still, does not make it last.
func TestEitherClockEndsTheUseOfALease(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	for what, later := range map[string]deadline.Instant{
		"the wall clock was set back": {Mono: int64(4 * time.Hour), Wall: int64(-time.Hour)},
		"the machine was suspended":   {Mono: 0, Wall: int64(4 * time.Hour)},
	} {
		began := now()
		k := newMarks(Config{Client: client}.withDefaults())
		k.now = func() deadline.Instant { return began }
		first, err := k.expiring(ctx)
		require.NoError(t, err)
		same, err := k.expiring(ctx)
		require.NoError(t, err)
		require.Equal(t, first, same, what)
		k.now = func() deadline.Instant {
			return deadline.Instant{Mono: began.Mono + later.Mono, Wall: began.Wall + later.Wall}
		}
		next, err := k.expiring(ctx)
		require.NoError(t, err)
		require.NotEqual(t, first, next, what)
	}
}

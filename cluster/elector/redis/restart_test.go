//go:build unix

package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/internal/test/redisserver"
)

// The package comment: a restart without persistence begins the tokens anew, except in candidates that have seen larger
// ones; and the command there continues the numbers.
func TestARestartLosesTheRecord(t *testing.T) {
	t.Parallel()
	ctx, server := testContext(t), redisserver.StartForTest(t)
	client, key := placeAt(server.Address()).client(t), newKey()
	store := newStore(t, client, key)
	require.NoError(t, client.Set(ctx, key, `{"version":"restored 2031-02-03","leaderTransitions":41}`, 0).Err())
	a := stand(t, store, "a", time.Minute)
	require.EqualValues(t, 42, awaitTerm(ctx, t, a), "the record continues the numbers")

	server.Kill()
	require.NoError(t, server.Restart())
	require.EqualValues(t, 43, awaitTerm(ctx, t, a), "a candidate that still runs continues them")
	require.NoError(t, a.stop())

	server.Kill()
	require.NoError(t, server.Restart())
	require.EqualValues(t, 1, awaitTerm(ctx, t, stand(t, store, "b", time.Minute)), "a new one begins anew")
}

// The package comment: appendonly keeps the record over a restart.
func TestARestartThatKeepsTheRecord(t *testing.T) {
	t.Parallel()
	ctx, server := testContext(t), redisserver.StartForTest(t, "--appendonly", "yes", "--appendfsync", "always")
	store := newStore(t, placeAt(server.Address()).client(t), newKey())
	lease, err := store.CreateLease(ctx, elector.Lease{LeaderTransitions: 7})
	require.NoError(t, err)
	server.Kill()
	require.NoError(t, server.Restart())
	read, err := store.GetLease(ctx)
	require.NoError(t, err)
	require.Equal(t, lease, read)
}

// The package comment: a policy that begins with allkeys may evict the record, one that begins with volatile does not.
func TestEviction(t *testing.T) {
	t.Parallel()
	ctx, server := testContext(t), redisserver.StartForTest(t)
	client := placeAt(server.Address()).client(t)
	used, err := client.Info(ctx, "memory").Result()
	require.NoError(t, err)
	_, used, _ = strings.Cut(used, "used_memory:")
	used, _, _ = strings.Cut(used, "\r\n")
	bytes, err := strconv.Atoi(used)
	require.NoError(t, err)
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", strconv.Itoa(bytes+1<<20)).Err())
	// fill writes until an error, or until the record is away.
	fill := func(policy, key string) error {
		require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		value := strings.Repeat("x", 10_000)
		for i := range 100_000 {
			if err := client.Set(ctx, fmt.Sprint("filler ", i), value, 0).Err(); err != nil {
				return err
			}
			if n, err := client.Exists(ctx, key).Result(); err != nil || n == 0 {
				return err
			}
		}
		return fmt.Errorf("%s evicts nothing", policy)
	}
	key := newKey()
	store := newStore(t, client, key)
	lease, err := store.CreateLease(ctx, elector.Lease{})
	require.NoError(t, err)
	require.ErrorContains(t, fill("volatile-random", key), "OOM")
	read, err := store.GetLease(ctx)
	require.NoError(t, err)
	require.Equal(t, lease, read)
	require.NoError(t, fill("allkeys-random", key))
	_, err = store.GetLease(ctx)
	require.ErrorIs(t, err, elector.ErrNotFound)
}

//go:build unix

package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
	"github.com/goverse/goverse/cluster/elector/redis"
	"github.com/goverse/goverse/internal/test/redisserver"
)

// server is one server for several tests, a client of it, and a context that ends.
type server struct {
	*redisserver.Server
	client *goredis.Client
	ctx    context.Context
}

func TestRedis(t *testing.T) {
	t.Parallel()
	s := server{Server: redisserver.StartForTest(t), ctx: testContext(t)}
	s.client = placeAt(s.Address()).client(t)
	t.Run("conforms", func(t *testing.T) {
		electortest.Run(t, func(t *testing.T) elector.LeaseStore { return newStore(t, s.client, newKey()) })
	})
	t.Run("fields of a newer release are kept", s.keepsFields)
	t.Run("a value that is no record is refused", s.refuses)
	t.Run("a record has no expiry", s.noExpiry)
	t.Run("a request that is sent twice is carried out once", s.sentTwice)
	t.Run("the script is forgotten", s.scriptForgotten)
	t.Run("handover", s.handover)
	t.Run("a write that is carried out late", s.lateWrite)
	t.Run("a leader that waits for Redis", s.frozen)
}

func (s server) keepsFields(t *testing.T) {
	key := newKey()
	store := newStore(t, s.client, key)
	require.NoError(t, s.client.Set(s.ctx, key,
		`{"version":"x","holderIdentity":"a","leaderTransitions":9007199254740993,"zone":{"name":"z"}}`, 0).Err())
	lease, err := store.GetLease(s.ctx)
	require.NoError(t, err)
	for range 2 {
		lease.LeaderTransitions++
		lease, err = store.UpdateLease(s.ctx, lease)
		require.NoError(t, err)
	}
	stored, err := s.client.Get(s.ctx, key).Result()
	require.NoError(t, err)
	require.Contains(t, stored, `{"format":1,"version":"`)
	require.Contains(t, stored, `,"leaderTransitions":9007199254740995,"zone":{"name":"z"}}`)
}

func (s server) refuses(t *testing.T) {
	key := newKey()
	store := newStore(t, s.client, key)
	for _, value := range []string{``, `x`, `{}`, `{"name":"another program's"}`,
		`{"version":"x","leaderTransitions":"many"}`, `{"format":2,"version":"x","holderIdentity":["a","b"]}`} {
		require.NoError(t, s.client.Set(s.ctx, key, value, 0).Err())
		_, err := store.GetLease(s.ctx)
		require.ErrorContains(t, err, "it's")
		require.NotErrorIs(t, err, elector.ErrNotFound)
		if strings.Contains(value, "format") {
			require.ErrorIs(t, err, elector.ErrFormat)
		} else {
			require.ErrorContains(t, err, "use another Key")
		}
		_, err = store.CreateLease(s.ctx, elector.Lease{})
		require.ErrorIs(t, err, elector.ErrExists)
		_, err = store.UpdateLease(s.ctx, elector.Lease{Version: value})
		require.ErrorIs(t, err, elector.ErrConflict)
		stored, err := s.client.Get(s.ctx, key).Result()
		require.NoError(t, err)
		require.Equal(t, value, stored)
	}
	require.NoError(t, s.client.Del(s.ctx, key).Err())
	require.NoError(t, s.client.HSet(s.ctx, key, "a", "b").Err())
	_, err := store.GetLease(s.ctx)
	require.ErrorContains(t, err, "use another Key")
	_, err = store.CreateLease(s.ctx, elector.Lease{})
	require.ErrorContains(t, err, "use another Key")
	require.NotErrorIs(t, err, elector.ErrExists)
}

func (s server) noExpiry(t *testing.T) {
	key := newKey()
	store := newStore(t, s.client, key)
	lease, err := store.CreateLease(s.ctx, elector.Lease{})
	require.NoError(t, err)
	permanent := func() {
		require.EqualValues(t, -1, s.client.TTL(s.ctx, key).Val(), "the key has no expiry")
		require.NoError(t, s.client.Expire(s.ctx, key, time.Hour).Err())
	}
	permanent()
	_, err = store.GetLease(s.ctx)
	require.NoError(t, err)
	permanent()
	_, err = store.UpdateLease(s.ctx, lease)
	require.NoError(t, err)
	permanent()
	_, err = store.UpdateLease(s.ctx, lease)
	require.ErrorIs(t, err, elector.ErrConflict)
	permanent()
}

// twice is a hook that sends each script twice and returns the second answer, as a client that lost the first one.
type twice struct{ goredis.Hook }

func (twice) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (twice) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (twice) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
			_ = next(ctx, goredis.NewCmd(ctx, cmd.Args()...))
		}
		return next(ctx, cmd)
	}
}

func (s server) sentTwice(t *testing.T) {
	client := placeAt(s.Address()).client(t)
	client.AddHook(twice{})
	store := newStore(t, client, newKey())
	first, err := store.CreateLease(s.ctx, elector.Lease{HolderIdentity: "a"})
	require.NoError(t, err)
	second, err := store.UpdateLease(s.ctx, first)
	require.NoError(t, err)
	read, err := store.GetLease(s.ctx)
	require.NoError(t, err)
	require.Equal(t, second, read)
	_, err = store.UpdateLease(s.ctx, first)
	require.ErrorIs(t, err, elector.ErrConflict)
}

func (s server) scriptForgotten(t *testing.T) {
	store := newStore(t, s.client, newKey())
	lease, err := store.CreateLease(s.ctx, elector.Lease{})
	require.NoError(t, err)
	require.NoError(t, s.client.ScriptFlush(s.ctx).Err())
	_, err = store.UpdateLease(s.ctx, lease)
	require.NoError(t, err)
}

func (s server) handover(t *testing.T) {
	store := newStore(t, s.client, newKey())
	a := stand(t, store, "a", time.Minute)
	require.EqualValues(t, 1, awaitTerm(s.ctx, t, a))
	b := stand(t, store, "b", time.Minute)
	require.Eventually(t, func() bool { return b.Leader() == "a" }, time.Minute, time.Millisecond)
	began := time.Now()
	require.NoError(t, a.stop())
	require.EqualValues(t, 2, awaitTerm(s.ctx, t, b))
	t.Logf("the next one leads %v after the leader was asked to stop", time.Since(began))
}

// Redis stands still while a write is under way, and carries it out later.
func (s server) lateWrite(t *testing.T) {
	store := newStore(t, s.client, newKey())
	lease, err := store.CreateLease(s.ctx, elector.Lease{})
	require.NoError(t, err)
	require.NoError(t, s.Freeze())
	soon, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	lease.HolderIdentity = "late"
	_, err = store.UpdateLease(soon, lease)
	require.NoError(t, s.Thaw())
	require.Error(t, err)
	require.NotErrorIs(t, err, elector.ErrConflict, "the outcome is unknown")
	require.ErrorIs(t, soon.Err(), context.DeadlineExceeded)
	late := awaitRecord(s.ctx, t, store, func(l elector.Lease) bool { return l.HolderIdentity == "late" })
	require.NotEqual(t, lease.Version, late.Version)
	_, err = store.UpdateLease(s.ctx, lease)
	require.ErrorIs(t, err, elector.ErrConflict)
}

// A leader whose renewals hang no longer leads when its lease has run out, and leads again with a larger token.
func (s server) frozen(t *testing.T) {
	a := stand(t, newStore(t, s.client, newKey()), "a", 2*time.Second)
	token := awaitTerm(s.ctx, t, a)
	require.NoError(t, s.Freeze())
	require.Eventually(t, func() bool { return !a.IsLeader() }, time.Minute, time.Millisecond)
	require.NoError(t, s.Thaw())
	require.Greater(t, awaitTerm(s.ctx, t, a), token)
}

func TestConfig(t *testing.T) {
	client := placeAt("127.0.0.1:1").client(t)
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	ring := goredis.NewRing(&goredis.RingOptions{ContextTimeoutEnabled: true})
	hasty := goredis.NewClient(&goredis.Options{})
	t.Cleanup(func() { require.NoError(t, cluster.Close()); require.NoError(t, ring.Close()); _ = hasty.Close() })
	for problem, cfg := range map[string]redis.Config{
		"Client is nil":      {Key: "a"},
		"Key is empty":       {Client: client},
		"has 513 bytes":      {Client: client, Key: strings.Repeat("a", 513)},
		"is a Ring":          {Client: ring, Key: "a"},
		"ignores deadlines;": {Client: cluster, Key: "a"},
		"ignores deadlines":  {Client: hasty, Key: "a"},
	} {
		_, err := redis.New(cfg)
		require.ErrorIs(t, err, elector.ErrBadConfig)
		require.ErrorContains(t, err, problem)
	}
	require.NoError(t, redis.Config{Client: client, Key: strings.Repeat("a", 512)}.Validate())
}

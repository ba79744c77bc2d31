package redisproc

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/needed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerAnswersUntilItIsClosed(t *testing.T) {
	s, err := Start(t.Context())
	if errors.Is(err, ErrNotInstalled) {
		needed.Missing(t, "redis", err.Error())
	}
	require.NoError(t, err)
	c := redis.NewClient(&redis.Options{Addr: s.Address, MaxRetries: -1})
	defer c.Close()
	require.NoError(t, c.Set(t.Context(), "key", "value", 0).Err())
	dir, err := c.ConfigGet(t.Context(), "dir").Result()
	require.NoError(t, err)
	require.Equal(t, s.dir, dir["dir"], "what it writes goes with it")
	require.NoError(t, s.Close())
	require.Error(t, c.Get(t.Context(), "key").Err())
	require.NoDirExists(t, s.dir)
}

func TestWithoutTheProgramItIsNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context())
	require.ErrorIs(t, err, ErrNotInstalled)
}

//go:build unix

package redisserver

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer checks that a server keeps nothing over a kill unless its arguments state otherwise, and that Close
// removes everything.
func TestServer(t *testing.T) {
	for _, c := range []struct {
		args []string
		kept int64
	}{{nil, 0}, {[]string{"--appendonly", "yes"}, 1}} {
		s := StartForTest(t, c.args...)
		client := redis.NewClient(&redis.Options{Addr: s.Address()})
		require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())
		s.Kill()
		require.NoError(t, s.Restart())
		kept, err := client.Exists(t.Context(), "key").Result()
		require.NoError(t, err)
		require.Equal(t, c.kept, kept)
		require.NoError(t, s.Freeze())
		require.NoError(t, s.Thaw())
		require.NoError(t, client.Ping(t.Context()).Err())
		require.NoError(t, client.Close())
		require.NoError(t, s.Close())
		require.NoDirExists(t, s.dir)
	}
}

func TestWithoutTheProgramItIsNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start()
	require.ErrorIs(t, err, ErrNotInstalled)
}

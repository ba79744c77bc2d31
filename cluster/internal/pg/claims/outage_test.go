//go:build unix

package claims

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
)

// The connections of a session beside the main one break, and no other can be opened for a while. Two lines report it,
// and the session goes on.
func TestOutageIsLogged(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	var log logtest.Buffer
	var down atomic.Bool
	var refused atomic.Int64
	cfg := config("", steady, &log)
	cfg.Connect = func(context.Context) (*pgx.ConnConfig, error) {
		if down.Load() {
			refused.Add(1)
			return nil, errors.New("the password has expired")
		}
		return pgx.ParseConfig(db.URL())
	}
	k, err := Open(patient(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(patient(t))) })
	s := k.Current()
	down.Store(true)
	require.Equal(t, 2, query[int](t, db, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid NOT IN ($1, pg_backend_pid())`, s.main.pid))
	got := make(chan error, 1)
	go func() { _, err := k.Acquire(patient(t), Spec{Name: "it"}); got <- err }()
	require.Eventually(t, func() bool { return refused.Load() > 20 }, patience, time.Millisecond)
	const failed, over = "a request to PostgreSQL failed, retrying", "PostgreSQL answers the session's requests again"
	require.Eventually(t, func() bool { return log.Count(failed) == 1 }, patience, time.Millisecond)
	require.Zero(t, log.Count(over))
	down.Store(false)
	require.NoError(t, <-got)
	require.Eventually(t, func() bool { return log.Count(over) == 1 }, patience, time.Millisecond)
	require.Equal(t, 1, log.Count(failed))
	require.Same(t, s, k.Current())
}

// An outage ends when every connection works again, and none has failed for a while.
func TestOutageEnds(t *testing.T) {
	var o outage
	at := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }
	require.False(t, o.succeed(useWatcher, at(0)))
	require.True(t, o.fail(useCommands, at(0)))
	require.False(t, o.fail(useWatcher, at(outageEndAfter/2)))
	require.False(t, o.succeed(useWatcher, at(2*outageEndAfter)), "the other one fails")
	require.False(t, o.fail(useCommands, at(2*outageEndAfter)))
	require.False(t, o.succeed(useCommands, at(3*outageEndAfter-1)), "it has just failed")
	require.False(t, o.fail(useWatcher, at(3*outageEndAfter-1)), "one that flaps has one line")
	require.True(t, o.succeed(useWatcher, at(4*outageEndAfter)))
	require.False(t, o.succeed(useWatcher, at(5*outageEndAfter)))
	require.True(t, o.fail(useWatcher, at(6*outageEndAfter)))
}

//go:build unix

package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// openWithOnLost opens a keeper like open, with an OnLost.
func openWithOnLost(t testing.TB, at string, deadline time.Duration, onLost func(ctx context.Context)) *process {
	t.Helper()
	return openWith(t, at, deadline, func(c *Config) { c.OnLost = onLost })
}

// A lost session is given up for the others, and another one opened, only after OnLost has returned.
func TestLostSessionStaysUntilOnLostReturns(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	for _, waits := range []bool{true, false} {
		called, goOn := make(chan error, 1), make(chan struct{})
		if !waits {
			close(goOn)
		}
		var held *Claim
		holder := openWithOnLost(t, db.URL(), time.Minute, func(ctx context.Context) {
			select {
			case called <- held.Context().Err():
			default: // the second call
			}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		})
		next := open(t, db.URL(), time.Minute)
		held = holder.acquire(t, Spec{Name: "it"})
		old := holder.SessionID()
		got := next.startWaiter(t, db, Spec{Name: "it"})
		terminate(t, db, held.s)
		require.ErrorIs(t, <-called, context.Canceled, "what was held has ended before")
		if waits {
			for range 200 { // enough time to give the session up
				require.Equal(t, 1, query[int](t, db, "SELECT count(*) FROM goverse.session WHERE id = $1", old))
				require.Empty(t, got, "granted while OnLost ran")
				require.Nil(t, holder.Current())
			}
			close(goOn)
		}
		c, _ := granted(t, got) // long before the deadline
		release(t, c)
		require.Eventually(t, holder.Valid, patience, time.Millisecond)
	}
}

// The context of OnLost ends at the deadline, and Close waits for the call.
func TestOnLostIsBoundedByTheDeadline(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	deadline := pace.TTL(2 * time.Second) // OnLost still runs when Close is called
	called, ended := make(chan time.Duration, 1), make(chan struct{}, 1)
	holder := openWithOnLost(t, db.URL(), deadline, func(ctx context.Context) {
		until, _ := ctx.Deadline()
		select {
		case called <- time.Until(until):
		default: // a second session was lost
		}
		<-ctx.Done()
		select {
		case ended <- struct{}{}:
		default:
		}
	})
	terminate(t, db, holder.acquire(t, Spec{Name: "it"}).s)
	left := <-called
	require.NoError(t, holder.Close(patient(t)))
	require.Len(t, ended, 1, "Close waited")
	require.LessOrEqual(t, left, deadline)
	require.Greater(t, left, -patience, "the context has a deadline")
	require.Zero(t, query[int](t, db, "SELECT count(*) FROM goverse.session"), "it is given up then")
}

// A session of a process that was killed is ended by another one, which need not have a session.
func TestEndSession(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	ended := make(chan struct{}, 1)
	holder := openWithOnLost(t, db.URL(), time.Minute, func(context.Context) {
		select {
		case ended <- struct{}{}:
		default: // its next session was lost, with the server
		}
	})
	next := open(t, db.URL(), time.Minute)
	held := holder.acquire(t, Spec{Name: "it"})
	got := next.startWaiter(t, db, Spec{Name: "it"})
	require.ErrorIs(t, EndSession(patient(t), Config{}, 1), ErrBadConfig)
	require.NoError(t, EndSession(patient(t), config(db.URL(), time.Minute, &logtest.Buffer{}), holder.SessionID()))
	c, _ := granted(t, got)
	require.Greater(t, c.Token(), held.Token())
	require.NoError(t, EndSession(patient(t), config(db.URL(), time.Minute, &logtest.Buffer{}), 1), "there is none")
	db.Kill()
	require.Error(t, EndSession(patient(t), config(db.URL(), time.Minute, &logtest.Buffer{}), 1))
	<-ended // with the server, unless a heartbeat has found before that the session was ended
	require.True(t, errors.Is(context.Cause(held.Context()), held.EndCause()))
	require.NoError(t, db.Restart())
}

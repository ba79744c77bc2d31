package elector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

var _ processor.LeaderLock = (*Elector)(nil)

// leads starts a call of Lead. Its function reports its token, and ends with its context or when goOn is closed.
func leads(t *testing.T, c *candidate) (tokens chan int64, goOn chan struct{}, ended chan error) {
	tokens, goOn, ended = make(chan int64, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Lead(t.Context(), func(ctx context.Context, token int64) error {
			require.Equal(t, token, TokenFrom(ctx))
			tokens <- token
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	synctest.Wait()
	return tokens, goOn, ended
}

// received receives from a channel within an hour of fake time.
func received[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Hour):
		require.Fail(t, "nothing was received")
	}
	return v
}

// Functions of Lead share the terms. The term continues when they have returned, and a later call waits for its
// turn in the next term.
func TestLeadRunsInEachTerm(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		tokens, goOn, ended := leads(t, a)
		again, _, endedToo := leads(t, a)
		require.EqualValues(t, 1, received(t, tokens))
		require.EqualValues(t, 1, received(t, again))
		close(goOn)
		require.NoError(t, received(t, ended))
		oops := errors.New("oops")
		require.Equal(t, oops, a.Lead(t.Context(), func(context.Context, int64) error { return oops }))
		pass(time.Minute)
		require.True(t, a.IsLeader(), "the term continues")
		require.Empty(t, endedToo)

		b := stand(t, "b", store)
		tokens, _, _ = leads(t, b)
		pass(time.Minute)
		require.Empty(t, tokens, "it waits")
		a.stop()
		require.Equal(t, context.Canceled, received(t, endedToo))
		require.NoError(t, <-a.done)
		require.EqualValues(t, 2, received(t, tokens))
	})
}

// The lease is not released before the functions of Lead have returned.
func TestLeadIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store)
		goOn, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- a.Lead(t.Context(), func(ctx context.Context, _ int64) error {
				<-ctx.Done()
				<-goOn
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		a.stop()
		pass(5 * time.Second)
		require.False(t, a.IsLeader())
		require.False(t, b.IsLeader(), "its work goes on")
		require.NotContains(t, a.happened(), "stopped")
		close(goOn)
		require.Equal(t, context.Canceled, received(t, ended))
		require.NoError(t, <-a.done)
		require.Contains(t, a.happened(), "stopped")
		pass(2 * time.Second)
		require.True(t, b.IsLeader())
	})
}

// A function of Lead ends with the lease, and the next call runs in the next term.
func TestLeadEndsWithTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		tokens, _, ended := leads(t, a)
		require.EqualValues(t, 1, received(t, tokens))
		a.cutOff(true)
		require.Equal(t, ErrExpired, received(t, ended))
		tokens, _, ended = leads(t, a)
		pass(time.Minute)
		require.Empty(t, tokens, "it does not lead")
		a.cutOff(false)
		require.EqualValues(t, 2, received(t, tokens))

		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		lease.HolderIdentity, lease.HolderInstance = "z", "z"
		_, err = store.UpdateLease(t.Context(), lease)
		require.NoError(t, err)
		require.Equal(t, ErrTaken, received(t, ended))
	})
}

// Lead waits for the first Run, returns ErrEnded after it, and waits again when the next Run has begun. A context
// that has ended runs nothing.
func TestLeadBeforeAndAfterRun(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		b := stand(t, "b", store)
		synctest.Wait()
		a := stand(t, "a", store, func(c *candidate, _ *Config) { c.later = true })
		none := func(context.Context, int64) error { t.Error("it does not lead"); return nil }
		ended := make(chan error, 1)
		go func() { ended <- a.Lead(t.Context(), none) }()
		pass(time.Minute)
		require.Empty(t, ended, "it waits for Run")
		a.run()
		pass(time.Minute)
		require.Empty(t, ended, "it waits for the lease")
		a.stop()
		require.NoError(t, <-a.done)
		err := received(t, ended)
		require.ErrorIs(t, err, ErrEnded)
		require.ErrorIs(t, err, processor.ErrNoLock)
		require.Equal(t, ErrEnded, a.Lead(t.Context(), none))

		a.run()
		synctest.Wait()
		tokens, _, _ := leads(t, a)
		require.Empty(t, tokens)
		b.stop()
		require.EqualValues(t, 2, received(t, tokens))
		late, cancel := context.WithCancelCause(t.Context())
		why := errors.New("too late")
		cancel(why)
		require.Equal(t, why, a.Lead(late, none))
	})
}

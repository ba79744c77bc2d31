package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/testbed"
)

type command struct {
	key    string
	number int
}

func keyOf(c command) string { return c.key }

// Commands of one key run one at a time, whichever process they arrive at. The counter behind them reads, yields,
// and writes.
func TestSingleWriter(t *testing.T) {
	t.Parallel()
	s := testbed.New(t, testbed.LongTTL)
	ctx, client := s.Ctx, s.Client
	count := func(ctx context.Context, c command) (int, error) {
		got, err := client.Get(ctx, "/count/"+c.key)
		if err != nil {
			return 0, err
		}
		n := 0
		if len(got.Kvs) > 0 {
			if _, err := fmt.Sscan(string(got.Kvs[0].Value), &n); err != nil {
				return 0, err
			}
		}
		_, err = client.Put(ctx, "/count/"+c.key, fmt.Sprint(n+1))
		return n + 1, err
	}
	a, b := testbed.StartLocks(s), testbed.StartLocks(s)
	run := func(handlers ...func(context.Context, command) (int, error)) (last int) {
		_, err := client.Delete(ctx, "/count/", clientv3.WithPrefix())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				_, err := handlers[i%len(handlers)](ctx, command{key: fmt.Sprint("k", i%3), number: i})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		for key := range 3 {
			got, err := client.Get(ctx, fmt.Sprint("/count/k", key))
			require.NoError(t, err)
			n := 0
			_, err = fmt.Sscan(string(got.Kvs[0].Value), &n)
			require.NoError(t, err)
			last += n
		}
		return last
	}
	require.Less(t, run(count), 60, "without the middleware commands are lost, or this test shows nothing")
	require.Equal(t, 60, run(lock.SingleWriter(a, keyOf, count), lock.SingleWriter(b, keyOf, count)))
}

// The command finds the lock in its context, errors are returned, and the lock is released whatever the command
// does.
func TestSingleWriterReleases(t *testing.T) {
	locks, ctx, failure := &lock.Memory{}, t.Context(), errors.New("sold out")
	var tokens []int64
	how := lock.SingleWriter(locks, keyOf, func(ctx context.Context, c command) (int, error) {
		held := lock.FromContext(ctx)
		require.Equal(t, c.key, held.Name())
		tokens = append(tokens, held.Token())
		_, taken, err := locks.TryAcquire(ctx, c.key)
		require.NoError(t, err)
		require.False(t, taken)
		switch c.number {
		case 0:
			return 0, failure
		case 1:
			panic("bug")
		}
		return c.number, nil
	})
	_, err := how(ctx, command{"a", 0})
	require.Equal(t, failure, err)
	require.PanicsWithValue(t, "bug", func() { _, _ = how(ctx, command{"a", 1}) })
	got, err := how(ctx, command{"a", 2})
	require.NoError(t, err)
	require.Equal(t, 2, got)
	require.Len(t, tokens, 3)
	require.IsIncreasing(t, tokens)

	_, err = how(ctx, command{"", 3})
	require.ErrorIs(t, err, lifecycle.ErrBadName)
	require.Len(t, tokens, 3)
	ended, end := context.WithCancelCause(ctx)
	end(failure)
	_, err = how(ended, command{"a", 4})
	require.ErrorIs(t, err, failure)
	require.Nil(t, lock.FromContext(ctx))
}

// A command learns by its context that the lock is lost. Its caller gets that as an error, together with the
// result.
func TestSingleWriterLoses(t *testing.T) {
	s := testbed.New(t, testbed.ShortTTL)
	a := testbed.StartLocks(s)
	how := lock.SingleWriter(a, keyOf, func(ctx context.Context, c command) (int, error) {
		_, err := s.Client.Revoke(s.Ctx, a.Keeper.Current().ID())
		require.NoError(t, err)
		<-ctx.Done()
		return c.number, nil
	})
	got, err := how(s.Ctx, command{"it", 7})
	require.Equal(t, 7, got)
	require.ErrorIs(t, err, lock.ErrLost)
	var lost *lock.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, "it", lost.Name)
	require.Error(t, lost.Err)
}

// A missing registry is reported by each command.
func TestSingleWriterWithoutRegistry(t *testing.T) {
	t.Parallel()
	handle := lock.SingleWriter(nil, keyOf, func(context.Context, command) (int, error) { panic("it runs") })
	_, err := handle(t.Context(), command{key: "it"})
	require.EqualError(t, err, "lock: SingleWriter's registry is nil; give it the one of Cluster.Locks")
}

package login

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// scripted returns an Auth that logs in by a test's script, which is told the number of the attempt. Its tokens are
// these numbers.
func scripted(t *testing.T, endpoints int, script func(ctx context.Context, n int) error) (auth *sharedAuth,
	attempts *atomic.Int64) {
	ctx, cancel := context.WithCancel(context.Background())
	attempts = &atomic.Int64{}
	auth = &sharedAuth{ctx: ctx, endpoints: func() []string { return make([]string, endpoints) },
		logIns: map[user]*sharedLogIn{},
		logIn: func(ctx context.Context, _, _ string) (*clientv3.AuthenticateResponse, error) {
			n := attempts.Add(1)
			if err := script(ctx, int(n)); err != nil {
				return nil, err
			}
			return &clientv3.AuthenticateResponse{Token: strconv.FormatInt(n, 10)}, nil
		}}
	t.Cleanup(func() {
		cancel()
		auth.close()
	})
	return auth, attempts
}

// lasting is a script in which each log-in takes d.
func lasting(d time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		if !wait.For(ctx, d) {
			return ctx.Err()
		}
		return nil
	}
}

// tokenWithin logs in and waits for d at most.
func tokenWithin(a *sharedAuth, d time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	resp, err := a.Authenticate(ctx, "", "")
	if err != nil {
		return "", err
	}
	return resp.Token, nil
}

func TestOneLogInServesAllWhoWantOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, attempts := scripted(t, 1, lasting(time.Second))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				token, err := tokenWithin(a, time.Minute)
				require.NoError(t, err)
				require.Equal(t, "1", token)
			})
		}
		wg.Wait()
		for i, want := range []string{"1", "1", "2"} {
			token, err := tokenWithin(a, time.Minute)
			require.NoError(t, err)
			require.Equal(t, want, token, "etcd forgets a token that is new only rarely")
			<-time.After(time.Duration(i+1) * newFor / 2)
		}
		called, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := a.Authenticate(called, "", "")
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 2, attempts.Load(), "a canceled caller begins none")
	})
}

// A log-in that takes longer than its caller waits is awaited by one caller after the other, and not begun anew.
func TestSlowLogInIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, attempts := scripted(t, 1, lasting(5*time.Second))
		began := time.Now()
		for range 2 {
			_, err := tokenWithin(a, 2*time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		token, err := tokenWithin(a, 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, "1", token)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 1, attempts.Load())
	})
}

// A token that came while no caller waited serves the next one, and only that one.
func TestTokenThatNoCallerWaitedForServesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := scripted(t, 1, lasting(2*time.Second))
		tokens := func(after ...time.Duration) (got []string) {
			_, err := tokenWithin(a, time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			for _, d := range after {
				<-time.After(d)
				token, err := tokenWithin(a, time.Minute)
				require.NoError(t, err)
				got = append(got, token)
			}
			return got
		}
		require.Equal(t, []string{"1", "2"}, tokens(2*time.Second, newFor))
		<-time.After(2 * newFor)
		require.Equal(t, []string{"4"}, tokens(time.Second+unclaimedFor+time.Millisecond), "too old")
		<-time.After(2 * newFor)
		other, err := func() (*clientv3.AuthenticateResponse, error) {
			_, _ = tokenWithin(a, time.Second)
			<-time.After(2 * time.Second)
			return a.Authenticate(context.Background(), "other", "secret")
		}()
		require.NoError(t, err)
		require.Equal(t, "6", other.Token, "it belongs to another user")
	})
}

// With several endpoints, an attempt at one that hangs is joined by a second one, but not by a third. With one
// endpoint it ends after its time.
func TestLogInThatHangsIsJoinedByAnother(t *testing.T) {
	for _, endpoints := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			a, attempts := scripted(t, endpoints, func(ctx context.Context, n int) error {
				if n == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return lasting(5*time.Second)(ctx, n)
			})
			began := time.Now()
			token, err := "", error(nil)
			for token == "" {
				token, err = tokenWithin(a, 2*time.Second)
				require.Less(t, time.Since(began), time.Minute, err)
			}
			require.Equal(t, "2", token)
			require.EqualValues(t, 2, attempts.Load())
			if endpoints == 1 {
				require.Equal(t, attemptTimeout+5*time.Second, time.Since(began))
			} else {
				require.Equal(t, 7*time.Second, time.Since(began))
			}
		})
	}
}

// One of two attempts fails; the other one still serves the callers.
func TestLogInFailsWithItsLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		a, _ := scripted(t, 2, func(ctx context.Context, n int) error {
			switch n {
			case 1:
				return lasting(3*time.Second)(ctx, n)
			case 2:
				return refused
			}
			_ = lasting(time.Second)(ctx, n)
			return refused
		})
		_, err := tokenWithin(a, 2*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		token, err := tokenWithin(a, 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, "1", token)
		<-time.After(2 * newFor)
		_, err = tokenWithin(a, 2*time.Second)
		require.ErrorIs(t, err, refused)
	})
}

func TestClosingTheClientEndsLogIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		a, _ := scripted(t, 1, lasting(5*time.Second))
		a.ctx = ctx
		failed := make(chan error)
		go func() {
			_, err := a.Authenticate(context.Background(), "", "")
			failed <- err
		}()
		synctest.Wait()
		cancel()
		a.close()
		require.ErrorIs(t, <-failed, context.Canceled)
		_, err := tokenWithin(a, time.Second)
		require.ErrorIs(t, err, errClosed)
	})
}

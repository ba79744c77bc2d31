package etcdsession

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
)

// awayLease is an etcd that can be away: requests then get no answer. While it ignores renewals, only they get
// none.
type awayLease struct {
	scriptedLease
	away, ignores atomic.Bool
}

func (l *awayLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if err := l.gone(ctx); err != nil {
		return nil, err
	}
	return l.scriptedLease.Grant(ctx, ttl)
}

func (l *awayLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	if err := l.gone(ctx); err != nil {
		return nil, err
	}
	if l.ignores.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.scriptedLease.KeepAliveOnce(ctx, id)
}

func (l *awayLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	if err := l.gone(ctx); err != nil {
		return nil, err
	}
	return l.scriptedLease.Revoke(ctx, id)
}

func (l *awayLease) gone(ctx context.Context) error {
	if !l.away.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// runKeeper runs a keeper in fake time. stop ends it and waits.
func runKeeper(t *testing.T, lease clientv3.Lease) (k *Keeper, log *bytes.Buffer, stop func()) {
	t.Helper()
	client := clientv3.NewCtxClient(context.Background())
	client.Lease, client.KV = lease, turnsKV{e: &turns{endpoints: 1}}
	log = &bytes.Buffer{}
	k, err := NewKeeper(Config{
		Process: etcd.Process{Client: client, Logger: hclog.New(&hclog.LoggerOptions{Output: log, JSONFormat: true})},
		TTL:     10 * time.Second}, Hooks{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return k, log, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// While etcd is away, the log reports that every half minute, and then the end of the outage.
func TestAnOutageIsToldUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &awayLease{}
		k, log, stop := runKeeper(t, lease)
		defer stop()
		first, err := k.Wait(context.Background(), nil)
		require.NoError(t, err)
		require.NotContains(t, log.String(), "again")

		lease.away.Store(true)
		<-first.Done()
		pass(75 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, strings.Count(log.String(), "this process still has no session with etcd"), log.String())
		lease.away.Store(false)
		_, err = k.Wait(context.Background(), first)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "session restored"), log.String())
		require.Regexp(t, `"away":"1m1[5-9]`, log.String(), "a duration is written for people, in JSON too")
	})
}

// A proxy for which etcd renews no lease leaves renewals unanswered and passes all other requests on. The
// second session without any renewal names the cause.
func TestLeasesThatAreGrantedAndNeverRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &awayLease{}
		lease.ignores.Store(true)
		k, _, stop := runKeeper(t, lease)
		defer stop()
		var s *Session
		lost := func() error {
			t.Helper()
			var err error
			s, err = k.Wait(context.Background(), s)
			require.NoError(t, err)
			<-s.Done()
			require.Equal(t, session.ReasonUnreachable, session.ReasonOf(s.Err()))
			return s.Err()
		}
		require.NotErrorIs(t, lost(), session.ErrNotRenewed)
		for range 2 {
			err := lost()
			require.ErrorIs(t, err, session.ErrNotRenewed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		lease.ignores.Store(false)
		s, err := k.Wait(context.Background(), s)
		require.NoError(t, err)
		pass(30 * time.Second)
		require.True(t, s.Valid())
		lease.ignores.Store(true)
		<-s.Done()
		require.NotErrorIs(t, s.Err(), session.ErrNotRenewed, "it was renewed")
		require.NotErrorIs(t, lost(), session.ErrNotRenewed, "and the one before")
		require.ErrorIs(t, lost(), session.ErrNotRenewed)
	})
}

func TestALossWithoutAnErrorHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, log, stop := runKeeper(t, &awayLease{})
		defer stop()
		first, err := k.Wait(context.Background(), nil)
		require.NoError(t, err)
		first.EndLocally(session.ReasonPaused, nil)
		_, err = k.Wait(context.Background(), first)
		require.NoError(t, err)
		synctest.Wait()
		require.Contains(t, log.String(), "the session is lost")
		require.NotContains(t, log.String(), `"error":`)
	})
}

func TestLeftTellsOfALeaseThatStays(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lease := &awayLease{}
			k, _, stop := runKeeper(t, lease)
			_, err := k.Wait(context.Background(), nil)
			require.NoError(t, err)
			lease.away.Store(away)
			stop()
			require.Equal(t, away, k.RevokeError() != nil)
		})
	}
}

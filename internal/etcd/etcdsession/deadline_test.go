package etcdsession

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/wait"
)

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

// scriptedLease is a lease server in fake time. Renewals answer after delay, or fail with err.
type scriptedLease struct {
	clientv3.Lease
	mu    sync.Mutex
	delay time.Duration
	err   error
	calls atomic.Int32
}

func (l *scriptedLease) answer(delay time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.err = delay, err
}

func (l *scriptedLease) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	pass(l.delay)
	return &clientv3.LeaseGrantResponse{ResponseHeader: &etcdserverpb.ResponseHeader{}, ID: 7, TTL: 10}, nil
}

func (l *scriptedLease) KeepAliveOnce(ctx context.Context,
	id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	l.calls.Add(1)
	l.mu.Lock()
	delay, err := l.delay, l.err
	l.mu.Unlock()
	if !wait.For(ctx, delay) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: &etcdserverpb.ResponseHeader{}, ID: id, TTL: 10}, nil
}

func (l *scriptedLease) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return &clientv3.LeaseRevokeResponse{}, nil
}

func openScripted(t *testing.T, lease *scriptedLease) *Session {
	t.Helper()
	client := clientv3.NewCtxClient(context.Background())
	client.Lease, client.KV = lease, turnsKV{e: &turns{endpoints: 1}}
	s, err := Open(context.Background(), Config{Process: etcd.Process{Client: client}, TTL: 10 * time.Second})
	require.NoError(t, err)
	return s
}

// Unlike the session, etcd's own client counts from the arrival of the answer.
func TestDeadlineCountsFromTheInstantOfSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &scriptedLease{delay: time.Second}
		granted := time.Now()
		s := openScripted(t, lease)
		require.Equal(t, 8900*time.Millisecond, time.Until(s.Deadline()), "sent a second ago, TTL 10 s less 1 %%")
		require.Equal(t, 8900*time.Millisecond, s.TimeLeft())
		pass(5 * time.Second) // one renewal, sent TTL/3 after the grant was
		require.EqualValues(t, 1, lease.calls.Load())
		sent := granted.Add(10 * time.Second / 3)
		require.Equal(t, sent.Add(9900*time.Millisecond).UnixNano(), s.Deadline().UnixNano())
		require.NoError(t, s.Close(context.Background()))
		require.False(t, s.Valid())
	})
}

func TestDeadlineDoesNotMoveWhileRenewalsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &scriptedLease{}
		s := openScripted(t, lease)
		lease.answer(0, errors.New("away"))
		deadline := s.Deadline()
		pass(9899 * time.Millisecond)
		require.True(t, s.Valid())
		require.NoError(t, s.Err())
		pass(time.Millisecond)
		require.False(t, s.Valid())
		require.Equal(t, deadline, s.Deadline())
		synctest.Wait()
		require.ErrorIs(t, s.Err(), session.ErrLost)
		require.Equal(t, session.ReasonUnreachable, session.ReasonOf(s.Err()))
		require.Greater(t, lease.calls.Load(), int32(10), "a failed renewal is tried again soon")
		require.NoError(t, s.Close(context.Background()))
	})
}

// An answer after the deadline does not restore the session.
func TestLateAnswerComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &scriptedLease{}
		s := openScripted(t, lease)
		deadline := s.Deadline()
		pass(3 * time.Second)
		lease.answer(0, errors.New("away"))
		pass(6 * time.Second)
		lease.answer(1500*time.Millisecond, nil) // sent before the deadline, answered after it
		pass(2 * time.Second)
		require.False(t, s.Valid())
		require.Equal(t, deadline, s.Deadline())
		require.Error(t, s.Err())
		require.NoError(t, s.Close(context.Background()))
	})
}

// Only a request sent after a suspicion clears it.
func TestSuspicionSuspendsTheSessionUnlessARenewalClearsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &scriptedLease{}
		s := openScripted(t, lease)
		lease.answer(20*time.Millisecond, nil)
		s.Suspect(0, 100*time.Millisecond)
		require.Equal(t, 100*time.Millisecond, time.Until(s.Deadline()))
		pass(50 * time.Millisecond)
		require.Equal(t, 9850*time.Millisecond, time.Until(s.Deadline()), "asked at once, and confirmed")
		pass(time.Second)
		require.NoError(t, s.Err())

		lease.answer(time.Second, nil) // sent before the suspicion; the answer would come too late
		s.RequestRenewal()
		synctest.Wait()
		lease.answer(20*time.Millisecond, nil)
		s.Suspect(0, 100*time.Millisecond)
		pass(50 * time.Millisecond)
		require.Equal(t, 9850*time.Millisecond, time.Until(s.Deadline()), "the round under way is not waited for")

		lease.answer(0, errors.New("away"))
		calls := lease.calls.Load()
		s.Suspect(0, 100*time.Millisecond)
		pass(99 * time.Millisecond)
		require.True(t, s.Valid())
		require.Greater(t, lease.calls.Load(), calls+5, "it asks again and again")
		first := s.Period()
		var notified atomic.Int32
		defer s.OnChange(func() { notified.Add(1) })()
		require.True(t, first.Valid())
		pass(time.Millisecond)
		require.False(t, s.Valid())
		synctest.Wait()
		require.Equal(t, session.ReasonUnconfirmed, session.ReasonOf(context.Cause(first.Context())))
		require.NoError(t, s.Err(), "the lease is not given up")
		require.EqualValues(t, 1, notified.Load())

		lease.answer(time.Second, nil) // slower than any suspicion allows
		pass(1500 * time.Millisecond)
		require.True(t, s.Valid())
		require.False(t, first.Valid(), "what was begun before is over")
		require.True(t, s.Period().Valid())
		require.NoError(t, s.Period().Context().Err())
		require.EqualValues(t, 2, notified.Load())

		lease.answer(0, errors.New("away"))
		s.Suspect(0, 100*time.Millisecond)
		pass(9900 * time.Millisecond)
		require.Equal(t, session.ReasonUnreachable, session.ReasonOf(s.Err()), "etcd gives the lease up")
		require.Equal(t, session.ReasonUnreachable, session.ReasonOf(context.Cause(s.Context())))
		require.NoError(t, s.Close(context.Background()))
	})
}

// etcd's refusal of the user ends the session at once. That it does not find the lease is one member's word, and has to
// be repeated.
func TestRenewalOfAnUnknownLeaseLosesTheSession(t *testing.T) {
	for err, want := range map[error]session.Reason{rpctypes.ErrLeaseNotFound: session.ReasonRevoked,
		rpctypes.ErrPermissionDenied: session.ReasonPermission} {
		synctest.Test(t, func(t *testing.T) {
			lease := &scriptedLease{}
			s := openScripted(t, lease)
			lease.answer(0, err)
			s.RequestRenewal()
			synctest.Wait()
			if want == session.ReasonRevoked {
				require.True(t, s.Valid())
				pass(s.TTL() / retriesPerTTL)
				synctest.Wait()
			}
			require.False(t, s.Valid())
			require.Equal(t, want, session.ReasonOf(s.Err()))
			require.Equal(t, want, session.ReasonOf(context.Cause(s.Context())))
			require.NoError(t, s.Close(context.Background()))
		})
	}
}

// A member that led etcd and stood still does not find the lease. Its word alone does not end the session, and the
// renewal after it counts. Once no key is on the lease, the same answer does.
func TestUnknownLeaseWhoseKeyStands(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	derived := clientv3.NewCtxClient(ctx)
	forgetful := &forgetfulLease{Lease: client.Lease}
	derived.KV, derived.Watcher, derived.Lease = client.KV, client.Watcher, forgetful
	s, err := Open(ctx, Config{Process: etcd.Process{Client: derived}, TTL: 10 * time.Second})
	require.NoError(t, err)
	put, err := client.Put(ctx, "/forgotten", "", clientv3.WithLease(s.ID()))
	require.NoError(t, err)
	s.ProtectKey("/forgotten", put.Header.Revision, nil)

	before := s.Deadline()
	forgetful.forget.Store(1)
	s.RequestRenewal()
	require.Eventually(t, func() bool { return s.Deadline().After(before) }, time.Minute, time.Millisecond)
	require.Zero(t, forgetful.forget.Load())
	require.True(t, s.Valid())

	_, err = client.Put(ctx, "/forgotten", "") // it stands, without the lease
	require.NoError(t, err)
	forgetful.forget.Store(1)
	s.RequestRenewal()
	<-s.Done()
	require.Equal(t, session.ReasonRevoked, session.ReasonOf(s.Err()))
	require.NoError(t, s.Close(ctx))
}

// forgetfulLease does not find the lease for the next few renewals.
type forgetfulLease struct {
	clientv3.Lease
	forget atomic.Int32
}

func (l *forgetfulLease) KeepAliveOnce(ctx context.Context,
	id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	if l.forget.Load() > 0 {
		l.forget.Add(-1)
		return nil, rpctypes.ErrLeaseNotFound
	}
	return l.Lease.KeepAliveOnce(ctx, id)
}

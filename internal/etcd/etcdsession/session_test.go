package etcdsession

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestConfigIsChecked(t *testing.T) {
	_, err := Open(context.Background(), Config{})
	require.ErrorContains(t, err, "Config.Client")
	client := clientv3.NewCtxClient(context.Background())
	for _, ttl := range []time.Duration{-time.Second, 1500 * time.Millisecond, time.Millisecond, 1 << 62} {
		require.ErrorIs(t, Config{Process: etcd.Process{Client: client}, TTL: ttl}.Validate(), ErrBadTTL, "%v", ttl)
	}
}

func TestRenewalKeepsTheSessionAndCloseRevokes(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: time.Second})
	require.NoError(t, err)
	first := s.Deadline()
	require.Eventually(t, func() bool { return s.Deadline().After(first.Add(time.Second)) }, time.Minute,
		10*time.Millisecond)
	require.True(t, s.Valid())
	_, err = client.Put(ctx, "/k", "v", clientv3.WithLease(s.ID()))
	require.NoError(t, err)
	require.NoError(t, s.Close(ctx))
	require.False(t, s.Valid())
	require.Zero(t, s.TimeLeft())
	require.Equal(t, session.ReasonClosed, session.ReasonOf(s.Err()))
	resp, err := client.Get(ctx, "/k")
	require.NoError(t, err)
	require.Empty(t, resp.Kvs, "its keys go with it")
	require.NoError(t, s.Close(ctx), "closing twice is harmless")
}

// A successful renewal is not enough: the keys that the session depends on must also exist.
func TestRenewalLooksForTheProtectedKeys(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	open := func() (*Session, int64) {
		s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		put, err := client.Put(ctx, "/k", "v")
		require.NoError(t, err)
		return s, put.Header.Revision
	}
	recreate := func() {
		_, err := client.Delete(ctx, "/k")
		require.NoError(t, err)
		_, err = client.Put(ctx, "/k", "v") // the same key, created again
		require.NoError(t, err)
	}

	s, rev := open()
	lost := make(chan struct{}, 8)
	s.ProtectKey("/k", rev, func() { lost <- struct{}{} })
	recreate()
	s.RequestRenewal()
	<-lost
	require.True(t, s.Valid(), "that key alone is lost")

	_, err := client.Delete(ctx, "/k")
	require.NoError(t, err)
	s, rev = open()
	released := s.ProtectKey("/other", 1, func() { t.Error("called after Release") })
	released.Release()
	s.ProtectKey("/k", rev, nil)
	recreate()
	s.RequestRenewal()
	<-s.Done()
	require.Equal(t, session.ReasonKeyLost, session.ReasonOf(s.Err()))
}

func TestRevokedFromOutside(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: 2 * time.Second})
	require.NoError(t, err)
	_, err = client.Revoke(ctx, s.ID())
	require.NoError(t, err)
	<-s.Done()
	require.Equal(t, session.ReasonRevoked, session.ReasonOf(s.Err()))
	require.NoError(t, s.Close(ctx))
}

// futureView knows a revision that etcd has not reached.
type futureView struct{ noView }

func (futureView) KnownRevision() int64 { return 1 << 40 }

func TestAnswerFromThePastIsAnotherHistory(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: 2 * time.Second, View: futureView{}})
	require.NoError(t, err)
	s.ProtectKey("/k", 1, func() {})
	s.RequestRenewal()
	<-s.Done()
	require.Equal(t, session.ReasonOtherHistory, session.ReasonOf(s.Err()))
	require.NoError(t, s.Close(ctx))
}

// The session becomes invalid before etcd ends the lease: etcd still has the key when Valid turns false.
func TestGoesQuietBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := etcdtest.Dial(t, server.Endpoint())
	ctx := etcdtest.Context(t)
	cut := &cutLease{Lease: client.Lease}
	derived := clientv3.NewCtxClient(ctx)
	derived.KV, derived.Lease = client.KV, cut
	s, err := Open(ctx, Config{Process: etcd.Process{Client: derived}, TTL: time.Second})
	require.NoError(t, err)
	_, err = server.Client().Put(ctx, "/k", "v", clientv3.WithLease(s.ID()))
	require.NoError(t, err)
	watch := server.Client().Watch(ctx, "/k")
	<-s.Done()
	require.False(t, s.Valid())
	resp, err := server.Client().Get(ctx, "/k")
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1, "etcd still holds the key")
	gone := <-watch
	require.Equal(t, clientv3.EventTypeDelete, gone.Events[0].Type)
	_ = s.Close(ctx)
}

// cutLease never receives an answer to a renewal.
type cutLease struct{ clientv3.Lease }

func (l *cutLease) KeepAliveOnce(ctx context.Context, _ clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestUnderConcurrencySession(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: 2 * time.Second})
	require.NoError(t, err)
	derived := clientv3.NewCtxClient(ctx)
	derived.KV, derived.Watcher, derived.Lease = client.KV, client.Watcher, s.Lease()
	cs, err := concurrency.NewSession(derived, concurrency.WithLease(s.ID()))
	require.NoError(t, err)
	_, err = client.Revoke(ctx, s.ID())
	require.NoError(t, err)
	s.RequestRenewal()
	<-cs.Done()
	_, err = s.Lease().KeepAlive(ctx, s.ID())
	require.ErrorIs(t, err, session.ErrLost)
	require.NoError(t, s.Close(ctx))
}

func TestKeeperReplacesLostSessions(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	var seen []session.Reason
	registered := 0
	k, err := NewKeeper(Config{Process: etcd.Process{Client: client}, TTL: time.Second}, Hooks{
		Register: func(context.Context, *Session) error { registered++; return nil },
		OnLost:   func(_ *Session, lost *session.LostError) { seen = append(seen, lost.Reason) },
	})
	require.NoError(t, err)
	run, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- k.Run(run) }()

	first, err := k.Wait(ctx, nil)
	require.NoError(t, err)
	first.EndLocally(session.ReasonPaused, nil)
	second, err := k.Wait(ctx, first)
	require.NoError(t, err)
	require.NotEqual(t, first.ID(), second.ID(), "never resumed")
	leases, err := client.Leases(ctx)
	require.NoError(t, err)
	require.Equal(t, []clientv3.LeaseStatus{{ID: second.ID()}}, leases.Leases, "the lost one's lease was revoked")

	stop()
	require.NoError(t, <-done)
	require.Nil(t, k.Current())
	require.Equal(t, []session.Reason{session.ReasonPaused}, seen)
	require.Equal(t, 2, registered)
	require.EqualValues(t, 1, k.LostSessions())
	leases, err = client.Leases(ctx)
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
}

func TestKeeperFirstRegistrationIsFinal(t *testing.T) {
	client := etcdtest.Client(t)
	refused := errors.New("taken")
	k, err := NewKeeper(Config{Process: etcd.Process{Client: client}, TTL: time.Second}, Hooks{
		Register: func(context.Context, *Session) error { return refused }})
	require.NoError(t, err)
	require.ErrorIs(t, k.Run(etcdtest.Context(t)), refused)
	leases, err := client.Leases(etcdtest.Context(t))
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
}

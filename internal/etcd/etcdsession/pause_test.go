package etcdsession

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// risky is a session whose lease etcd may revoke early, and which stands on a key.
func risky(t *testing.T) (*Session, *clientv3.Client, string) {
	t.Helper()
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Client: etcd.Client(), TTL: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // lost, in some
	resp, err := etcd.Client().Put(ctx, "/pause/key", "", clientv3.WithLease(s.ID()))
	require.NoError(t, err)
	s.Protect("/pause/key", resp.Header.Revision, nil)
	require.Eventually(t, func() bool { return *s.pauses.Load() != (deadline.Pauses{}) }, 10*time.Second, time.Millisecond)
	locked(s, func() {
		require.Eventually(t, func() bool { // it cannot beat
			return s.pauses.Load().Stood(deadline.Now())
		}, 10*time.Second, time.Millisecond)
		require.True(t, s.Valid(), "in the term of its lease it makes no difference to what is claimed")
		require.True(t, s.Suspected(), "nothing new is begun, before the session has noticed anything itself")
	})
	s.newest.Store(s.term + 1)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.pauses.Load().Unsure() && s.Valid()
	}, 10*time.Second, time.Millisecond)
	return s, etcd.Client(), "/pause/key"
}

// locked keeps the session's own goroutine from running while f runs, also if f ends the test.
func locked(s *Session, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// standStill keeps the session's own goroutine from running until the session is not valid by that.
func standStill(t *testing.T, s *Session, meanwhile func()) {
	t.Helper()
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, 10*time.Second, time.Millisecond)
		require.True(t, s.Period().Stands())
		require.False(t, s.Period().Valid())
		require.True(t, s.Suspected(), "nothing new is begun")
		meanwhile()
	})
}

// A process that stood still claims nothing until etcd has confirmed that all is as it was; then it goes
// on as if nothing had been.
func TestPauseIsConfirmed(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	period := s.Period()
	changed := make(chan struct{}, 10)
	defer s.OnChange(func() { changed <- struct{}{} })()
	standStill(t, s, func() {})
	for range 2 { // that it is not valid, and that it is again
		select {
		case <-changed:
		case <-etcdtest.Context(t).Done():
			t.Fatal("nobody is notified")
		}
	}
	require.True(t, period.Confirm(etcdtest.Context(t)))
	require.True(t, s.Valid())
	require.True(t, period.Valid(), "it is the same period")
	require.NoError(t, period.Context().Err())
	require.False(t, s.Suspected())
}

// One whose key went meanwhile is not valid for an instant more.
func TestPauseInWhichTheKeyGoes(t *testing.T) {
	t.Parallel()
	s, client, key := risky(t)
	period := s.Period()
	standStill(t, s, func() {
		_, err := client.Delete(etcdtest.Context(t), key)
		require.NoError(t, err)
	})
	for s.Err() == nil {
		require.False(t, s.Valid())
	}
	require.False(t, period.Confirm(etcdtest.Context(t)))
	require.Equal(t, session.ReasonKeyLost, session.ReasonOf(s.Err()))
	require.False(t, s.Valid())
}

// A second pause, before the first one is confirmed, is confirmed by a round of its own.
func TestTwoPauses(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, 10*time.Second, time.Millisecond)
		noticed := deadline.Now()
		first, _ := s.pauses.Load().Beat(noticed)
		s.pauses.Store(&first)
		require.Eventually(t, func() bool { return deadline.Now().Reached(noticed.Add(deadline.PauseLimit)) },
			10*time.Second, time.Millisecond)
		s.confirmed(noticed, deadline.Now()) // answered after the second one, which nobody has noticed
		require.False(t, s.Valid())
		require.True(t, s.Suspected(), "nor is anything new begun: etcd may have revoked the lease")
	})
	require.True(t, s.Period().Confirm(etcdtest.Context(t)))
}

// etcd's raft term can fall, when it is restored from a backup: the session is not held to be asleep forever.
func TestRiskThatPasses(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, 10*time.Second, time.Millisecond)
		s.newest.Store(s.term)
	})
	require.Eventually(t, s.Valid, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return !s.Suspected() }, 10*time.Second, time.Millisecond)
}

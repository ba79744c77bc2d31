package etcdsession

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// risky returns a session that depends on a key and has a lease that etcd may revoke early.
func risky(t *testing.T) (*Session, *clientv3.Client, string) {
	t.Helper()
	server := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	s, err := Open(ctx, Config{Process: etcd.Process{Client: server.Client()}, TTL: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // some tests have lost it
	resp, err := server.Client().Put(ctx, "/pause/key", "", clientv3.WithLease(s.ID()))
	require.NoError(t, err)
	s.ProtectKey("/pause/key", resp.Header.Revision, nil)
	require.Eventually(t, func() bool { return *s.pauses.Load() != (deadline.Pauses{}) }, time.Minute, time.Millisecond)
	locked(s, func() {
		awaitPause(t, deadline.Now())
		require.True(t, s.pauses.Load().Stood(deadline.Now()), "it cannot beat")
		require.True(t, s.Valid(), "in the term of its lease it makes no difference to what is claimed")
		require.True(t, s.Suspected(), "nothing new is begun, before the session has noticed anything itself")
	})
	s.newestTerm.Store(s.raftTerm + 1)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.pauses.Load().Unconfirmed() && s.Valid()
	}, 10*time.Second, time.Millisecond)
	return s, server.Client(), "/pause/key"
}

// locked keeps the session's own goroutine from running while f runs, even if f ends the test.
func locked(s *Session, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// awaitPause waits until a process that has not beaten since then counts as paused.
func awaitPause(t *testing.T, since deadline.Instant) {
	t.Helper()
	require.Eventually(t, func() bool { return deadline.Now().Reached(since.Add(deadline.PauseLimit)) }, time.Minute,
		time.Millisecond)
}

// standStill keeps the session's own goroutine from running until that has made the session invalid.
func standStill(t *testing.T, s *Session, meanwhile func()) {
	t.Helper()
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, time.Minute, time.Millisecond)
		require.True(t, s.Period().ValidDespitePause())
		require.False(t, s.Period().Valid())
		require.True(t, s.Suspected(), "nothing new is begun")
		meanwhile()
	})
}

// A process that stood still claims nothing until etcd has confirmed that its keys are unchanged. Then it
// continues as if there had been no pause.
func TestPauseIsConfirmed(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	period := s.Period()
	changed := make(chan struct{}, 10)
	defer s.OnChange(func() { changed <- struct{}{} })()
	standStill(t, s, func() {})
	for range 2 { // it became invalid, and valid again
		select {
		case <-changed:
		case <-etcdtest.Context(t).Done():
			t.Fatal("nobody is notified")
		}
	}
	require.True(t, period.AwaitConfirmed(etcdtest.Context(t)))
	require.True(t, s.Valid())
	require.True(t, period.Valid(), "it is the same period")
	require.NoError(t, period.Context().Err())
	require.False(t, s.Suspected())
}

// A session that lost its key during a pause is never valid again, not even for an instant.
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
	require.False(t, period.AwaitConfirmed(etcdtest.Context(t)))
	require.Equal(t, session.ReasonKeyLost, session.ReasonOf(s.Err()))
	require.False(t, s.Valid())
}

// A second pause, before the first one is confirmed, needs a round of its own.
func TestTwoPauses(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, time.Minute, time.Millisecond)
		noticed := deadline.Now()
		first, _ := s.pauses.Load().OnBeat(noticed)
		s.pauses.Store(&first)
		awaitPause(t, noticed)
		s.recordConfirmation(noticed, deadline.Now()) // answered after the second one, which is not noticed yet
		require.False(t, s.Valid())
		require.True(t, s.Suspected(), "nor is anything new begun: etcd may have revoked the lease")
	})
	require.True(t, s.Period().AwaitConfirmed(etcdtest.Context(t)))
}

// etcd's raft term can fall when etcd is restored from a backup. The session must not count as paused forever.
func TestRiskThatPasses(t *testing.T) {
	t.Parallel()
	s, _, _ := risky(t)
	locked(s, func() {
		require.Eventually(t, func() bool { return !s.Valid() }, time.Minute, time.Millisecond)
		s.newestTerm.Store(s.raftTerm)
	})
	require.Eventually(t, s.Valid, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return !s.Suspected() }, time.Minute, time.Millisecond)
}

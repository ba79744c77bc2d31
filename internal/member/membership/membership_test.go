package membership

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// register returns a registered member that answers at its address, and its session.
func register(t *testing.T) (*Membership, *etcdsession.Session, *logtest.Buffer) {
	t.Helper()
	return registerFor(t, 10*time.Second)
}

// registerFor is like register with that TTL.
func registerFor(t *testing.T, ttl time.Duration) (*Membership, *etcdsession.Session, *logtest.Buffer) {
	t.Helper()
	ctx, client := etcdtest.Context(t), etcdtest.Start(t).Client()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, n.Start())
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	keys, err := state.NewKeys("/membership")
	require.NoError(t, err)
	log := &logtest.Buffer{}
	process := etcd.Process{Client: client, Keys: keys, Address: n.AdvertiseAddress(), RequestTimeout: 5 * time.Second,
		Logger: log.Logger()}
	view := watchcache.New(watchcache.Config{Process: process, LagTimeout: time.Second})
	m := New(Config{Process: process, Mirror: view,
		Identify: func(ctx context.Context, address string) (string, error) {
			identity, err := peer.Identify(ctx, address)
			return identity.InstanceID, err
		},
		Record: state.Record{InstanceID: n.InstanceID()}, RemovePredecessor: true,
		SilenceTimeout: 3500 * time.Millisecond, MeasureEvery: time.Second})
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = view.Run(running); done <- struct{}{} }() // its only error is the context's
	go func() { m.Run(running); done <- struct{}{} }()
	t.Cleanup(func() {
		stop()
		<-done
		<-done
	})
	s, err := etcdsession.Open(ctx, etcdsession.Config{Process: etcd.Process{Client: client}, TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	require.NoError(t, m.Register(ctx, s))
	require.NoError(t, m.AwaitRecorded(ctx))
	return m, s, log
}

// A node that is stopped while it takes over its address logs no warning.
func TestTakeoverThatIsCancelledIsNotLogged(t *testing.T) {
	t.Parallel()
	m, s, log := register(t)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	cancel()
	free, err := m.removePredecessor(ctx, s, &state.Member{Address: m.cfg.Address})
	require.False(t, free)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, log.String(), "could not take the address over")
}

// A predecessor that was too far from etcd for its TTL is not removed: its lease decides.
func TestPredecessorThatWasTooFarIsLeftToItsLease(t *testing.T) {
	t.Parallel()
	m, s, log := register(t)
	warned := false
	far := state.Record{InstanceID: "another", TTL: 10, RoundTripMS: 800}
	_, err := m.freeAddress(etcdtest.Context(t), s, &state.Member{Address: m.cfg.Address, Incarnation: 1, Record: far},
		&warned)
	require.NoError(t, err)
	require.Contains(t, log.String(), errFar.Error())
	near := far
	near.RoundTripMS = 0
	free, err := m.freeAddress(etcdtest.Context(t), s, &state.Member{Address: m.cfg.Address, Incarnation: 1, Record: near},
		&warned)
	require.NoError(t, err)
	require.True(t, free, "one that was near is accused, and found to be gone")
	require.Equal(t, 1, strings.Count(log.String(), errFar.Error()))
}

// The record in etcd follows the changes of the node's record.
func TestRecordIsWritten(t *testing.T) {
	t.Parallel()
	m, _, _ := register(t)
	ctx := etcdtest.Context(t)
	m.SetElectionFailed(context.DeadlineExceeded)
	require.NoError(t, m.AwaitRecorded(ctx))
	own := m.cfg.Mirror.Snapshot().Member(m.cfg.Address)
	require.True(t, own.ElectionFailed)
	require.Equal(t, context.DeadlineExceeded.Error(), own.Reason)
	m.SetElectionFailed(nil)
	m.MarkStopping()
	m.MarkLeft()
	require.NoError(t, m.AwaitRecorded(ctx))
	own = m.cfg.Mirror.Snapshot().Member(m.cfg.Address)
	require.False(t, own.ElectionFailed)
	require.True(t, own.Stopping && own.Draining && own.Left)
}

// If etcd revokes leases that were renewed, a member must report that about its own. Its session may be lost for
// another reason before it can learn that: because its node key is missing, or a renewal is denied.
func TestWhatIsReportedOfALostSession(t *testing.T) {
	t.Parallel()
	m, s, _ := register(t)
	ctx, client := etcdtest.Context(t), m.cfg.Client
	for _, reason := range []session.Reason{session.ReasonKeyLost, session.ReasonPermission} {
		for _, revoked := range []bool{true, false} {
			s.EndLocally(reason, nil)
			if revoked {
				_, err := client.Revoke(ctx, s.ID())
				require.NoError(t, err)
			}
			require.NoError(t, s.Close(ctx))
			require.NoError(t, s.Close(ctx), "there is nothing left to revoke")
			var err error
			s, err = etcdsession.Open(ctx, etcdsession.Config{Process: etcd.Process{Client: client}, TTL: 10 * time.Second})
			require.NoError(t, err)
			require.NoError(t, m.Register(ctx, s))
			require.Equal(t, revoked, m.Record().RevokedEarly, "%s", reason)
		}
	}
	s.Suspect(0, 0) // its deadline is now; its lease has most of its TTL left
	require.Eventually(t, func() bool { return time.Now().After(s.Deadline()) }, time.Minute, time.Millisecond)
	_, err := client.Revoke(ctx, s.ID())
	require.NoError(t, err)
	<-s.Done()
	require.NoError(t, s.Close(ctx))
	s, err = etcdsession.Open(ctx, etcdsession.Config{Process: etcd.Process{Client: client}, TTL: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, m.Register(ctx, s))
	require.True(t, m.Record().RevokedEarly)
	require.NoError(t, s.Close(ctx))
}

func TestRenewalsOfAnotherLease(t *testing.T) {
	var r leaseRenewals
	for _, remaining := range []int64{3, 2, 1} {
		r = r.next(remaining, 7)
	}
	require.Zero(t, r.count, "a lease that runs out is not renewed")
	r = r.next(3, 7).next(3, 7)
	require.Equal(t, 2, r.count)
	r = r.next(9, 8)
	require.Zero(t, r.count, "etcd's new leader makes every lease last longer")
	require.Equal(t, 1, r.next(9, 8).count)
}

// A node that was too far from etcd for a moment soon says so no longer, although its next renewal is due in an hour.
func TestNodeThatWasTooFarMeasuresAgain(t *testing.T) {
	t.Parallel()
	m, s, _ := registerFor(t, 3*time.Hour)
	ctx := etcdtest.Context(t)
	answer, err := m.cfg.Client.Get(ctx, "any")
	require.NoError(t, err)
	m.mu.Lock()
	warn := m.setDistance(suspicion.NewDistance(s.TTL(), m.cfg.SilenceTimeout,
		suspicion.Trip{Member: answer.Header.GetMemberId(), Took: time.Second}))
	far := m.record.RoundTrip()
	m.mu.Unlock()
	warn()
	require.True(t, suspicion.TooFarForSilence(far, m.cfg.SilenceTimeout))
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.distance.TooFar()
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, m.AwaitRecorded(ctx))
	require.False(t, suspicion.TooFarForSilence(m.cfg.Mirror.Snapshot().Member(m.cfg.Address).RoundTrip(),
		m.cfg.SilenceTimeout))
}

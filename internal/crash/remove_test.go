package crash

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// testBed is an etcd with a member "a:1" that holds a node key and a candidacy on a lease, and an accuser "x".
type testBed struct {
	ctx     context.Context
	client  *clientv3.Client
	keys    state.Keys
	accused *state.Member
	accuser Accuser
	keeper  *etcdsession.Keeper // does not run
}

func newTestBed(t *testing.T) *testBed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	server := etcdtest.Start(t)
	client := server.Client()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	lease, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	record := state.Record{InstanceID: "i", Lease: int64(lease.ID)}
	put, err := client.Put(ctx, keys.Node("a:1"), record.Encode(), clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	_, err = client.Put(ctx, keys.Candidate(int64(lease.ID)), "a:1", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	mine, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client}}, etcdsession.Hooks{})
	require.NoError(t, err)
	return &testBed{ctx: ctx, keeper: keeper, client: client, keys: keys,
		accused: &state.Member{Address: "a:1", Incarnation: put.Header.Revision, KeyLease: int64(lease.ID), Record: record},
		accuser: Accuser{Client: client, Keys: keys, ID: "x", Lease: mine.ID}}
}

func (s *testBed) left(t *testing.T) []string {
	t.Helper()
	resp, err := s.client.Get(s.ctx, "/", clientv3.WithPrefix())
	require.NoError(t, err)
	var keys []string
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func TestNobodyRefutes(t *testing.T) {
	s := newTestBed(t)
	began := time.Now()
	require.NoError(t, s.accuser.RemoveMember(s.ctx, s.accused, "refused"))
	require.GreaterOrEqual(t, time.Since(began), suspicion.DefaultGracePeriod, "the grace period is given")
	require.Empty(t, s.left(t))
	leases, err := s.client.Leases(s.ctx)
	require.NoError(t, err)
	require.Len(t, leases.Leases, 1, "only the accuser's")
}

func TestTheAccusedRefutes(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: s.client, Keys: s.keys}})
	process := etcd.Process{Client: s.client, Address: "a:1", RequestTimeout: time.Minute} // an answer that is late counts
	d := New(Config{Process: process, Mirror: m, Keeper: s.keeper, InstanceID: "i"})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{}, 2)
	go func() { _ = m.Run(ctx); ended <- struct{}{} }()
	go func() { d.DefendSelf(ctx); ended <- struct{}{} }()
	<-m.Ready()
	s.accuser.GracePeriod = 4 * time.Second // the member must refute, not merely be slow
	require.ErrorIs(t, s.accuser.RemoveMember(s.ctx, s.accused, "refused"), ErrRefuted)
	require.Len(t, s.left(t), 2, "nothing of the accused is gone")
	require.Eventually(t, func() bool { return d.Stats().Refutations == 1 }, time.Minute, time.Millisecond)

	// An accusation of an earlier incarnation does not concern the member.
	old := *s.accused
	old.Incarnation--
	require.ErrorIs(t, s.accuser.RemoveMember(s.ctx, &old, "refused"), ErrChanged)
	cancel()
	<-ended
	<-ended
}

func TestGoneByItself(t *testing.T) {
	s := newTestBed(t)
	_, err := s.client.Revoke(s.ctx, clientv3.LeaseID(s.accused.Lease))
	require.NoError(t, err)
	require.ErrorIs(t, s.accuser.RemoveMember(s.ctx, s.accused, "refused"), ErrChanged)

	s = newTestBed(t)
	s.accuser.GracePeriod = time.Second
	removed := make(chan error, 1)
	go func() { removed <- s.accuser.RemoveMember(s.ctx, s.accused, "refused") }()
	accusation := s.client.Watch(s.ctx, s.keys.Accusation("a:1", "x"), clientv3.WithRev(1))
	<-accusation
	_, err = s.client.Revoke(s.ctx, clientv3.LeaseID(s.accused.Lease))
	require.NoError(t, err)
	require.ErrorIs(t, <-removed, ErrChanged, "gone within the grace period is not refuted")
}

// A request that timed out can commit later. Then there is an accusation that no accuser waits for, of a member
// that is gone.
func TestVoidAccusationIsTakenBack(t *testing.T) {
	s := newTestBed(t)
	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: s.client, Keys: s.keys}})
	d := New(Config{Process: etcd.Process{Client: s.client, Address: "x:1"}, Mirror: m, Keeper: s.keeper, InstanceID: "x"})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{}, 2)
	go func() { _ = m.Run(ctx); ended <- struct{}{} }()
	go func() { d.DefendSelf(ctx); ended <- struct{}{} }()
	<-m.Ready()
	_, err := s.accuser.writeAccusation(s.ctx, s.accused, "refused")
	require.NoError(t, err)
	stands := func(snap *state.Snapshot) bool { return len(snap.Accusations) == 1 }
	_, err = m.Wait(s.ctx, stands)
	require.NoError(t, err)
	_, err = s.client.Revoke(s.ctx, clientv3.LeaseID(s.accused.Lease))
	require.NoError(t, err)
	_, err = m.Wait(s.ctx, func(snap *state.Snapshot) bool { return !stands(snap) })
	require.NoError(t, err)
	require.Empty(t, s.left(t))
	cancel()
	<-ended
	<-ended
}

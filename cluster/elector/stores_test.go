package elector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMemoryConforms(t *testing.T) {
	electortest.Run(t, func(*testing.T) elector.LeaseStore { return elector.NewMemory() })
}

// testBed is an etcd, and any number of processes with a connection each.
type testBed struct {
	*testing.T
	ctx    context.Context
	server *etcdtest.Server
	keys   state.Keys
	names  atomic.Int64
}

func newTestBed(t *testing.T) *testBed {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return &testBed{T: t, ctx: etcdtest.Context(t), server: etcdtest.Start(t), keys: keys}
}

func (s *testBed) client() *clientv3.Client {
	s.Helper()
	return etcdtest.Dial(s.T, s.server.Endpoint())
}

func (s *testBed) store(client *clientv3.Client, name string) *elector.Etcd {
	s.Helper()
	store, err := elector.NewEtcd(elector.EtcdConfig{Client: client, Prefix: s.keys.Prefix(), Name: name})
	require.NoError(s, err)
	return store
}

func TestEtcdConforms(t *testing.T) {
	s := newTestBed(t)
	client := s.client()
	electortest.Run(t, func(t *testing.T) elector.LeaseStore {
		return s.store(client, fmt.Sprintf("a/%d", s.names.Add(1)))
	})
}

func TestEtcdKeepsNamesApart(t *testing.T) {
	s := newTestBed(t)
	client := s.client()
	_, err := s.store(client, "a/b").CreateLease(s.ctx, elector.Lease{HolderIdentity: "x"})
	require.NoError(t, err)
	resp, err := client.Get(s.ctx, "/goverse/work/leases/a%2Fb")
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.Zero(t, resp.Kvs[0].Lease, "it outlives who wrote it: the number in it must not be lost")
	_, err = s.store(client, "a").GetLease(s.ctx)
	require.ErrorIs(t, err, elector.ErrNotFound)

	_, err = client.Put(s.ctx, s.keys.LeaseRecord("foreign"), "x")
	require.NoError(t, err)
	_, err = s.store(client, "foreign").GetLease(s.ctx)
	require.ErrorContains(t, err, s.keys.LeaseRecord("foreign"))
	require.NotErrorIs(t, err, elector.ErrNotFound)

	for _, name := range []string{"", string(make([]byte, 1000))} {
		_, err = elector.NewEtcd(elector.EtcdConfig{Client: client, Prefix: s.keys.Prefix(), Name: name})
		require.ErrorIs(t, err, lifecycle.ErrBadName)
	}
	for _, cfg := range []elector.EtcdConfig{{Name: "a"}, {Client: client, Prefix: "bad", Name: "a"}, {Client: client}} {
		_, err = elector.NewEtcd(cfg)
		require.ErrorIs(t, err, elector.ErrBadConfig)
	}
	require.NoError(t, elector.EtcdConfig{Client: client, Name: "a"}.Validate())
}

// candidate is an elector in a process of its own.
type candidate struct {
	*elector.Elector
	starts chan time.Time // the starts of its terms
	faults *etcdfault.Faults
	stop   func() error
}

func (s *testBed) stand(id string, lease, retry time.Duration) *candidate {
	s.Helper()
	client := s.client()
	c := &candidate{starts: make(chan time.Time, 100), faults: etcdfault.Inject(client)}
	var err error
	c.Elector, err = elector.New(elector.Config{LeaseStore: s.store(client, "it"), CandidateID: id,
		LeaseDuration: lease, RetryPeriod: retry,
		ReleaseOnCancel:  true,
		OnStartedLeading: func(ctx context.Context) { c.starts <- time.Now(); <-ctx.Done() },
	})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx)
		close(done)
	}()
	c.stop = func() error { cancel(); return <-done }
	s.Cleanup(func() { _ = c.stop() })
	return c
}

func (s *testBed) led(c *candidate) time.Time {
	s.Helper()
	select {
	case at := <-c.starts:
		return at
	case <-s.ctx.Done():
		require.Fail(s, "it does not lead")
		return time.Time{}
	}
}

// The store can be watched, so the next candidate does not wait for its next read.
func TestHandoverOverEtcd(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	a := s.stand("a", time.Hour, 20*time.Minute)
	s.led(a)
	b := s.stand("b", time.Hour, 20*time.Minute)
	require.Eventually(t, func() bool { return b.Leader() == "a" }, time.Minute, time.Millisecond)
	token := a.Token()
	began := time.Now()
	require.NoError(t, a.stop())
	t.Logf("the next one leads %v after the leader was asked to stop", s.led(b).Sub(began))
	require.True(t, b.IsLeader())
	require.Equal(t, token+1, b.Token())
}

// A leader that is cut off no longer leads before the next one does.
func TestCutOffFromEtcd(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	a := s.stand("a", 2*time.Second, 200*time.Millisecond)
	s.led(a)
	b := s.stand("b", 2*time.Second, 200*time.Millisecond)
	require.Eventually(t, func() bool { return b.Leader() == "a" }, time.Minute, time.Millisecond)
	a.faults.CutOff()
	began := time.Now()
	at := s.led(b)
	require.False(t, a.IsLeader())
	require.Greater(t, b.Token(), int64(1))
	t.Logf("the next one leads %v after the leader was cut off", at.Sub(began))
	a.faults.Reconnect()
	require.Eventually(t, func() bool { return a.Leader() == "b" }, time.Minute, time.Millisecond)
	require.NoError(t, b.stop())
	s.led(a)
	require.Greater(t, a.Token(), int64(2))
}

// Renewals are lost, held back, and carried out when another candidate leads.
func TestLateRenewalAtEtcd(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	a := s.stand("a", 2*time.Second, 100*time.Millisecond)
	s.led(a)
	writing := etcdfault.Putting(s.keys.LeaseRecord("it"))
	a.faults.LoseAnswer(etcdfault.OpTxn, writing)
	late := a.faults.HoldNext(etcdfault.OpTxn, writing)
	b := s.stand("b", 2*time.Second, 100*time.Millisecond)
	<-late.Caught()
	a.faults.CutOff()
	s.led(b)
	require.False(t, a.IsLeader())
	token := b.Token()
	require.NoError(t, late.Release(s.ctx))
	a.faults.Reconnect()
	require.Eventually(t, func() bool { return a.Leader() == "b" }, time.Minute, time.Millisecond)
	require.Equal(t, token, b.Token())
}

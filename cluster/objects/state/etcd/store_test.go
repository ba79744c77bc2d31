package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/etcd"
	"github.com/goverse/goverse/cluster/objects/state/statetest"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "/test/objects"

func open(t *testing.T, client *clientv3.Client, change ...func(*etcd.Config)) *etcd.Store {
	t.Helper()
	cfg := etcd.Config{Client: client, Prefix: prefix, RequestTimeout: 20 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	s, err := etcd.New(cfg)
	require.NoError(t, err)
	return s
}

// owner is one activation of the object "it".
type owner int64

func (owner) Service() string { return "test.Counters" }
func (owner) Key() string     { return "a/b" }
func (o owner) Epoch() int64  { return int64(o) }

const (
	record  = prefix + "/records/test.Counters/a%2Fb"
	replies = prefix + "/replies/test.Counters/a%2Fb/"
)

type counter = state.State[*wrapperspb.Int64Value]

func load(t *testing.T, store state.Store, epoch owner) *counter {
	t.Helper()
	s, err := state.Load(etcdtest.Context(t), store, epoch, &wrapperspb.Int64Value{})
	require.NoError(t, err)
	return s
}

// increment makes a call and returns the new value.
func increment(t *testing.T, s *counter, id string) (int64, error) {
	t.Helper()
	reply, err := state.Do(etcdtest.Context(t), s, id, func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value++
		return wrapperspb.Int64(s.Value().Value), nil
	})
	return reply.GetValue(), err
}

func TestConforms(t *testing.T) {
	t.Parallel()
	client, last := etcdtest.Client(t), 0
	statetest.Run(t, func(t *testing.T) state.Store {
		last++
		return open(t, client, func(c *etcd.Config) { c.Prefix = fmt.Sprintf("/objects/%d", last) })
	})
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	require.NoError(t, etcd.Config{Client: client}.Validate())
	for _, bad := range []etcd.Config{{}, {Client: client, Prefix: "a"}, {Client: client, Prefix: "/a/"},
		{Client: client, Retention: time.Millisecond}, {Client: client, RequestTimeout: -1},
		{Client: client, MaxBytes: -1}} {
		_, err := etcd.New(bad)
		require.ErrorIs(t, err, state.ErrBadConfig)
	}
	_, err := open(t, client).Load(etcdtest.Context(t), state.Ref{Service: "a", Key: "b"}, -1)
	require.ErrorIs(t, err, state.ErrBadRef)
}

// An owner that was paused while its shard moved stores nothing. The same call takes effect at the new owner.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	old := load(t, open(t, client), 1)
	now := load(t, open(t, client), 2)
	_, err := increment(t, old, "a")
	require.ErrorIs(t, err, state.ErrFenced)
	reply, err := increment(t, now, "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, reply)
	require.ErrorIs(t, old.Reload(etcdtest.Context(t)), state.ErrFenced)
}

// The largest allowed state is accepted. A larger one is refused because of its size, by the store and by etcd.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	for _, c := range []struct {
		store *etcd.Store
		fits  int
		not   int
	}{
		{open(t, client), 1<<20 - 10, 1<<20 + 1},
		{open(t, client, func(c *etcd.Config) { c.MaxBytes = 1 << 24 }), 1 << 20, 1<<20 + 1<<19 + 1},
		{open(t, client, func(c *etcd.Config) { c.MaxBytes = 1 << 24 }), 1 << 20, 1 << 23},
	} {
		s, err := state.Load(ctx, c.store, owner(1), &wrapperspb.BytesValue{})
		require.NoError(t, err)
		s.Value().Value = make([]byte, c.fits)
		require.NoError(t, s.Save(ctx))
		s.Value().Value = make([]byte, c.not)
		err = s.Save(ctx)
		require.ErrorIs(t, err, state.ErrTooLarge)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.Len(t, s.Value().Value, c.fits)
		require.NoError(t, s.Err())
		require.NoError(t, s.Save(ctx))
	}
}

func leaseOf(t *testing.T, client *clientv3.Client, key string) clientv3.LeaseID {
	t.Helper()
	resp, err := client.Get(etcdtest.Context(t), key)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1, key)
	return clientv3.LeaseID(resp.Kvs[0].Lease)
}

// Replies and claims share a lease and end with it. A state has no lease.
func TestLeases(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	store := open(t, client, func(c *etcd.Config) { c.Retention = 80 * time.Minute })
	s := load(t, store, 1)
	lease := leaseOf(t, client, record)
	require.NotZero(t, lease)
	for i := range 3 {
		_, err := increment(t, s, fmt.Sprint(i))
		require.NoError(t, err)
		require.Equal(t, lease, leaseOf(t, client, replies+fmt.Sprint(i)))
	}
	require.Zero(t, leaseOf(t, client, record))
	s = load(t, store, 2)
	require.Zero(t, leaseOf(t, client, record))
	ttl, err := client.TimeToLive(ctx, lease)
	require.NoError(t, err)
	require.EqualValues(t, 90*60, ttl.GrantedTTL)
	_, err = client.Revoke(ctx, lease) // as if it had expired
	require.NoError(t, err)
	reply, err := increment(t, s, "0")
	require.NoError(t, err, "it takes another lease")
	require.EqualValues(t, 4, reply, "the id is not known any more")
	require.NotEqual(t, lease, leaseOf(t, client, replies+"0"))

	require.NoError(t, s.Delete(ctx))
	_, err = client.Revoke(ctx, leaseOf(t, client, record))
	require.NoError(t, err)
	require.ErrorIs(t, s.Save(ctx), state.ErrConflict, "the claim is gone")
	require.NoError(t, s.Reload(ctx), "with another lease")
	require.NoError(t, s.Save(ctx))
	require.Zero(t, leaseOf(t, client, record))
}

// A caller does not wait beyond its own deadline for the lease that another one requests.
func TestCallersWaitForALease(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	store := open(t, client)
	held := etcdfault.Inject(client).HoldNext(etcdfault.OpGrant)
	leaving, leave := context.WithCancel(ctx)
	first := make(chan error, 1)
	go func() {
		_, err := store.Load(leaving, state.Ref{Service: "a", Key: "first"}, 1)
		first <- err
	}()
	<-held.Caught()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() {
		_, err := store.Load(short, state.Ref{Service: "a", Key: "second"}, 1)
		second <- err
	}()
	select {
	case err := <-second:
		require.ErrorIs(t, err, state.ErrUnavailable, "nothing was written")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(5 * time.Second):
		require.Fail(t, "it waits beyond its deadline")
	}
	leave()
	require.ErrorIs(t, <-first, state.ErrUnavailable)
	_, err := store.Load(ctx, state.Ref{Service: "a", Key: "second"}, 1)
	require.NoError(t, err)
}

// A write that etcd has carried out counts, with or without its answer.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	client := etcdtest.Client(t)
	faults := etcdfault.Inject(client)
	store := open(t, client)
	s := load(t, store, 1)
	faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(record))
	short, cancel := context.WithTimeout(etcdtest.Context(t), time.Second)
	defer cancel()
	s.Value().Value = 7
	err := s.Save(short)
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	require.ErrorIs(t, s.Err(), state.ErrStale)
	require.NoError(t, s.Reload(etcdtest.Context(t)))
	require.EqualValues(t, 7, s.Value().Value)

	faults.FailNext(etcdfault.OpTxn, errors.New("not carried out"), etcdfault.Putting(record))
	_, err = increment(t, s, "a")
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	require.NoError(t, s.Reload(etcdtest.Context(t)))
	reply, err := increment(t, s, "a")
	require.NoError(t, err)
	require.EqualValues(t, 8, reply)
}

// A save changes nothing if etcd carries it out after its caller has left and the State was reloaded.
func TestDelayedSave(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, ctx := etcdtest.Dial(t, server.Endpoint()), etcdtest.Context(t)
	faults := etcdfault.Inject(client)
	s := load(t, open(t, client), 1)
	held := faults.HoldNext(etcdfault.OpTxn, etcdfault.Putting(record))
	leaving, leave := context.WithCancel(ctx)
	saved := make(chan error, 1)
	go func() {
		s.Value().Value = 7
		saved <- s.Save(leaving)
	}()
	<-held.Caught()
	leave()
	require.ErrorIs(t, <-saved, state.ErrOutcomeUnknown)
	require.NoError(t, s.Reload(ctx))
	_ = held.Release(ctx) // its comparison refuses it
	require.Zero(t, s.Value().Value)
	s.Value().Value = 1
	require.NoError(t, s.Save(ctx))
	require.EqualValues(t, 1, load(t, open(t, etcdtest.Dial(t, server.Endpoint())), 1).Value().Value)
}

// A key without a record is left alone, and the error names it.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	store := open(t, client)
	s := load(t, store, 1)
	for _, value := range []string{"", "short", strings.Repeat("\xff", 20)} {
		_, err := client.Put(ctx, record, value)
		require.NoError(t, err)
		_, err = state.Load(ctx, store, owner(1), &wrapperspb.Int64Value{})
		require.ErrorIs(t, err, state.ErrUnreadable)
		require.ErrorContains(t, err, record+" holds no record that this release of Goverse reads: if a newer release "+
			"wrote it, use that")
		_, err = store.Save(ctx, s.Ref(), state.Write{Version: 1, Epoch: 1})
		require.ErrorIs(t, err, state.ErrConflict)
	}
}

// A closed client has written nothing.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	store := open(t, client)
	require.NoError(t, client.Close())
	ref := state.Ref{Service: "a", Key: "b"}
	_, err = store.Load(etcdtest.Context(t), ref, 1)
	require.ErrorIs(t, err, state.ErrUnavailable)
	_, _, err = store.Reply(etcdtest.Context(t), ref, "1")
	require.ErrorIs(t, err, state.ErrUnavailable)
	_, err = store.Save(etcdtest.Context(t), ref, state.Write{Version: 1, Epoch: 1, RequestID: "1"})
	require.ErrorIs(t, err, state.ErrUnavailable, "no lease was granted")
}

// etcd may have carried out a request that it answers with "no space", and gRPC may report exhausted resources
// for an answer. Neither proves that nothing was stored.
func TestRefusalsThatProveNothing(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	faults := etcdfault.Inject(client)
	for _, refusal := range []error{rpctypes.ErrNoSpace,
		status.Error(codes.ResourceExhausted, "the answer is too large")} {
		s := load(t, open(t, client), 1)
		faults.FailNext(etcdfault.OpTxn, refusal)
		s.Value().Value = 1
		err := s.Save(ctx)
		require.ErrorIs(t, err, state.ErrOutcomeUnknown)
		require.ErrorIs(t, err, refusal)
		require.ErrorIs(t, s.Err(), state.ErrStale)
	}
}

package etcdlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/testbed"
)

// testBed is two processes, and a client without faults.
type testBed struct {
	*testbed.TestBed
	ctx               context.Context
	a, b              *process
	client            *clientv3.Client
	locks             state.Queues
	entering, leaving etcdfault.Match // the queue
}

func newTestBed(t *testing.T, ttl time.Duration) *testBed {
	t.Helper()
	t.Parallel()
	s := &testBed{TestBed: testbed.New(t, ttl)}
	s.ctx, s.client, s.locks = s.Ctx, s.Client, s.Keys.Locks()
	s.a, s.b = start(s.TestBed), start(s.TestBed)
	s.entering, s.leaving = etcdfault.Putting(s.locks.QueuePrefix("it")), etcdfault.Deleting(s.locks.QueuePrefix("it"))
	return s
}

func (s *testBed) acquire(p *process) lock.Held {
	s.Helper()
	h, err := p.Acquire(s.ctx, "it")
	require.NoError(s, err)
	return h
}

// wait makes a process wait for the lock, and returns when it is in the queue.
func (s *testBed) wait(p *process) <-chan lock.Held {
	s.Helper()
	before := len(s.queue())
	got := make(chan lock.Held, 1)
	go func() {
		defer close(got)
		if h, err := p.Acquire(s.ctx, "it"); err == nil {
			got <- h
		}
	}()
	require.Eventually(s, func() bool { return len(s.queue()) > before }, time.Minute, time.Millisecond)
	return got
}

// queue returns the keys of the lock's queue, in order.
func (s *testBed) queue() []string { s.Helper(); return s.KeysWithPrefix(s.locks.QueuePrefix("it")) }

func TestAnswerToAcquireIsLost(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	s.a.Faults.LoseAnswer(etcdfault.OpTxn, s.entering)
	h := s.acquire(s.a)
	require.Len(t, s.queue(), 1, "it was made once")
	next := s.wait(s.b)
	require.NoError(t, h.Release(s.ctx))
	require.NoError(t, (<-next).Release(s.ctx))
	require.Empty(t, s.queue())
}

// An abandoned request reaches etcd after another request has acquired the lock. It must not leave a key, which
// would block the queue.
func TestLateAcquireIsRefused(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	late := s.a.Faults.HoldNext(etcdfault.OpTxn, s.entering)
	h := s.acquire(s.a)
	require.NoError(t, late.Release(s.ctx))
	require.Len(t, s.queue(), 1)
	require.NoError(t, h.Release(s.ctx))
	require.Empty(t, s.queue())
}

func TestAnswerToReleaseIsLost(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.a)
	next := s.wait(s.b)
	for range 2 { // to the first attempt, and to the one after it
		s.a.Faults.LoseAnswer(etcdfault.OpWrite, s.leaving)
	}
	require.NoError(t, h.Release(s.ctx))
	require.NoError(t, (<-next).Release(s.ctx))
}

// A release with a context that has ended happens all the same, as soon as etcd answers. A second Release waits
// for that.
func TestReleaseIsNotTakenBack(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.a)
	next := s.wait(s.b)
	held := s.a.Faults.HoldNext(etcdfault.OpWrite, s.leaving)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	require.ErrorIs(t, h.Release(ctx), context.Canceled)
	require.False(t, h.Valid())
	<-held.Caught()
	require.Len(t, s.queue(), 2)
	require.NoError(t, h.Release(s.ctx))
	require.Len(t, s.queue(), 1)
	require.NoError(t, (<-next).Release(s.ctx))
	require.NoError(t, held.Release(s.ctx))
}

// A caller that gives up before etcd has answered leaves nothing behind.
func TestGivenUpBeforeTheAnswer(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	late := s.a.Faults.HoldNext(etcdfault.OpTxn, s.entering)
	ctx, cancel := context.WithCancel(s.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := s.a.Acquire(ctx, "it")
		failed <- err
	}()
	<-late.Caught()
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.NoError(t, s.acquire(s.b).Release(s.ctx))
	require.NoError(t, late.Release(s.ctx))
	require.Eventually(t, func() bool { return len(s.queue()) == 0 }, time.Minute, 5*time.Millisecond)
}

// A failed TryAcquire blocks no other caller once it has returned.
func TestTriedInVain(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.b)
	late := s.a.Faults.HoldNext(etcdfault.OpWrite, s.leaving)
	_, ok, err := s.a.TryAcquire(s.ctx, "it")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, h.Release(s.ctx))
	h, ok, err = s.b.TryAcquire(s.ctx, "it")
	require.NoError(t, err)
	require.True(t, ok, "it is free, and nobody waits")
	<-late.Caught()
	require.NoError(t, late.Release(s.ctx))
	require.NoError(t, h.Release(s.ctx))
}

func TestLostSessionLosesTheLockAndThePlace(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h, next := s.acquire(s.a), s.wait(s.b)
	first := s.b.Keeper.Current()
	for _, p := range []*process{s.b, s.a} {
		old := p.Keeper.Current()
		_, err := s.client.Revoke(s.ctx, old.ID())
		require.NoError(t, err)
		old.RequestRenewal()
		<-old.Done()
	}
	<-h.Context().Done()
	require.False(t, h.Valid())
	_, lost := context.Cause(h.Context()).(*session.LostError)
	require.True(t, lost)
	err := h.Release(s.ctx)
	require.ErrorIs(t, err, lock.ErrLost)
	got := <-next
	require.NotNil(t, got, "queued again on the next session")
	require.NotSame(t, first, s.b.Keeper.Current())
	require.Greater(t, got.Token(), h.Token())
	require.NoError(t, got.Release(s.ctx))
}

// A holder that is paused for longer than its TTL is no longer the holder when it continues, and cannot write
// under its token.
func TestPausedHolderCannotWrite(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h, next := s.acquire(s.a), s.wait(s.b)
	s.a.Faults.CutOff()
	got := <-next
	require.NotNil(t, got)
	require.False(t, h.Valid(), "its deadline was before etcd's")
	require.Error(t, h.Context().Err())
	write := func(h lock.Held) bool {
		resp, err := s.client.Txn(s.ctx).If(h.Guard()...).Then(clientv3.OpPut("/written", "")).Commit()
		require.NoError(t, err)
		return resp.Succeeded
	}
	require.False(t, write(h))
	require.True(t, write(got))
	require.NoError(t, got.Release(s.ctx))
	require.False(t, write(got))
	s.a.Faults.Reconnect()
	require.ErrorIs(t, h.Release(s.ctx), lock.ErrLost)
}

func TestKeyOfTheHolderIsDeleted(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h := s.acquire(s.a)
	_, err := s.client.Delete(s.ctx, s.queue()[0])
	require.NoError(t, err)
	<-h.Context().Done()
	require.ErrorIs(t, context.Cause(h.Context()), lock.ErrKeyLost)
	require.False(t, h.Valid())
	require.ErrorIs(t, h.Release(s.ctx), lock.ErrLost)
	require.NoError(t, s.acquire(s.a).Release(s.ctx))
}

func TestKeyOfOneWhoWaitsIsDeleted(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h, next := s.acquire(s.a), s.wait(s.b)
	gone, err := s.client.Delete(s.ctx, s.queue()[1])
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.Deleted)
	require.Eventually(t, func() bool { return len(s.queue()) == 2 }, time.Minute, time.Millisecond, "it queues again")
	require.NoError(t, h.Release(s.ctx))
	require.NoError(t, (<-next).Release(s.ctx))
}

// A silent watch does not keep a lock from the next entry.
func TestWatchThatIsSilent(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h, next := s.acquire(s.a), s.wait(s.b)
	s.b.Faults.FreezeWatch()
	require.NoError(t, h.Release(s.ctx))
	got := <-next
	require.NotNil(t, got)
	s.b.Faults.ThawWatch()
	require.NoError(t, got.Release(s.ctx))
}

// A key among the locks, on this process's lease, that was not requested, is deleted.
func TestKeyThatNobodyAskedFor(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	require.NoError(t, s.acquire(s.a).Release(s.ctx))
	_, err := s.client.Put(s.ctx, s.locks.QueuePrefix("it")+"x", "", clientv3.WithLease(s.a.Keeper.Current().ID()))
	require.NoError(t, err)
	h := s.acquire(s.b)
	require.NoError(t, h.Release(s.ctx))
}

// A session that is suspended for a moment loses its locks. Their keys stay until the holder has ended its
// work.
func TestSuspendedSession(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h, next := s.acquire(s.a), s.wait(s.b)
	mine := s.queue()[0]
	s.a.Faults.CutOff()
	s.a.Keeper.Current().Suspect(0, 20*time.Millisecond)
	<-h.Context().Done()
	require.False(t, h.Valid())
	s.a.Faults.Reconnect()
	require.Eventually(t, func() bool { return s.a.Keeper.Current().Valid() }, time.Minute, time.Millisecond)
	require.False(t, h.Valid(), "not again")
	require.Equal(t, mine, s.queue()[0])
	require.ErrorIs(t, h.Release(s.ctx), lock.ErrLost)
	require.NoError(t, (<-next).Release(s.ctx))
}

// The answer to the request is lost, and the answer to the question about its outcome too. The request was
// committed once, and the token is that of the key that stands.
func TestNothingIsHeardOfAcquire(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	counting := etcdfault.Putting(s.locks.Root() + "batches/")
	s.a.Faults.LoseAnswer(etcdfault.OpTxn, s.entering)
	s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrTimeout, counting,
		func(r etcdfault.Request) bool { return !s.entering(r) })
	h := s.acquire(s.a)
	resp, err := s.client.Get(s.ctx, s.queue()[0])
	require.NoError(t, err)
	require.Equal(t, resp.Kvs[0].CreateRevision, h.Token())
	require.EqualValues(t, 1, resp.Kvs[0].Version, "written once")
	require.Equal(t, s.queue()[0], h.(etcdlock.Held).Key())
	txn, err := s.client.Txn(s.ctx).If(h.Guard()...).Commit()
	require.NoError(t, err)
	require.True(t, txn.Succeeded)
	require.NoError(t, h.Release(s.ctx))
	require.Empty(t, s.queue())
}

// A refusal by etcd affects only the lock concerned.
func TestRefused(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrPermissionDenied, s.entering)
	_, err := s.a.Acquire(s.ctx, "it")
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.NoError(t, s.acquire(s.a).Release(s.ctx))
}

// A holder is notified when etcd refuses its release. The lock is free as soon as etcd allows it.
func TestReleaseRefused(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	h := s.acquire(s.a)
	next := s.wait(s.b)
	s.a.Faults.FailNext(etcdfault.OpWrite, rpctypes.ErrPermissionDenied, s.leaving)
	err := h.Release(s.ctx)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.NotErrorIs(t, err, lock.ErrLost, "nobody else can have had it")
	require.NoError(t, (<-next).Release(s.ctx))
	require.Eventually(t, func() bool { return h.Release(s.ctx) == nil }, time.Minute, time.Millisecond, "it is by now")
}

// When etcd has no space left, held locks can be released.
func TestNoSpaceLeft(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.a)
	next := s.wait(s.b)
	for range 20 {
		s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrNoSpace, etcdfault.Putting(s.locks.Root()))
	}
	require.NoError(t, h.Release(s.ctx))
	require.NoError(t, (<-next).Release(s.ctx))
}

// When etcd has no space left and others want to enter, releases are not held up.
func TestNoSpaceLeftAndManyWantIn(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.a)
	next := s.wait(s.b)
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range 6 { // more than can be in flight
		name := fmt.Sprint("other ", i)
		putting := etcdfault.Putting(s.locks.QueuePrefix(name))
		tried := make(chan struct{})
		once := sync.OnceFunc(func() { close(tried) })
		for range 1000 {
			s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrNoSpace, func(r etcdfault.Request) bool {
				if putting(r) {
					once()
				}
				return putting(r)
			})
		}
		wg.Go(func() { _, _ = s.a.Acquire(ctx, name) })
		if i < 3 {
			<-tried // and is retried by the same lane
		}
	}
	require.NoError(t, h.Release(s.ctx))
	require.NoError(t, (<-next).Release(s.ctx))
}

// The requests that release a lock, the first alone and the next in a batch, reach etcd late, after another
// request has released the lock and it was acquired again. They do not delete the new key.
func TestLateReleaseFindsAnotherKey(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	h := s.acquire(s.a)
	before := s.queue()
	alone, batch := s.a.Faults.HoldNext(etcdfault.OpWrite, s.leaving), s.a.Faults.HoldNext(etcdfault.OpWrite,
		s.leaving)
	for range 3 { // the question about the outcome, the next attempt, and the question about that
		s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrNoSpace, etcdfault.Putting(s.locks.Root()))
	}
	require.NoError(t, h.Release(s.ctx))
	require.Empty(t, s.queue())
	again := s.acquire(s.a)
	require.NoError(t, alone.Release(s.ctx))
	require.NoError(t, batch.Release(s.ctx))
	require.Len(t, s.queue(), 1)
	require.NotEqual(t, before, s.queue(), "nobody gets a key that a late batch may delete")
	require.NoError(t, again.Release(s.ctx))
}

package automation_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/test/processtest"
	"github.com/goverse/goverse/internal/test/testbed"
)

// Two processes share a list under locks in etcd. One of them is cut off from etcd for good in the middle of an item.
// The other one executes that item when the session of the first is over, and no sooner.
func TestProcessVanishes(t *testing.T) {
	t.Parallel()
	s, l := testbed.New(t, testbed.ShortTTL), newJobs(60)
	first, second := testbed.StartLocks(s), testbed.StartLocks(s)
	stuck := make(chan context.Context, 1)
	_, endFirst := run(t, automation.Config[int]{Name: "it", Source: l.source(t, first), Concurrency: 2,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			if item.Value != 20 {
				return l.execute(ctx, item)
			}
			end := l.begin(item.Key)
			stuck <- ctx
			<-ctx.Done()
			end(false)
			return context.Cause(ctx)
		}})
	ctx := <-stuck
	a, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, second), Execute: l.execute, Concurrency: 2})
	s.Eventually(func() bool { return l.left() <= 1 }, "all but the one that is locked")
	first.Faults.CutOff()
	s.Eventually(func() bool { return l.left() == 0 }, "the other one executes it")
	require.Error(t, ctx.Err(), "the first one had to stop before that")
	require.Positive(t, a.Status().Done)
	endFirst()
	l.requireEachOnce(t, 60)
}

// A lock that is lost in the middle ends the item's context. The item is executed again, and the loss is reported.
func TestLockIsLostInTheMiddle(t *testing.T) {
	t.Parallel()
	s, l := testbed.New(t, 9*time.Second), newJobs(1) // the deletion is noticed within a third of the TTL
	p := testbed.StartLocks(s)
	var tries atomic.Int64
	begun := make(chan struct{}, 1)
	a, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, p),
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			if tries.Add(1) > 1 {
				return l.execute(ctx, item)
			}
			begun <- struct{}{}
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), lock.ErrKeyLost)
			return context.Cause(ctx)
		}})
	<-begun
	_, err := s.Client.Delete(s.Ctx, s.Keys.Locks().Root(), clientv3.WithPrefix())
	require.NoError(t, err)
	s.Eventually(func() bool { return l.left() == 0 && a.Status().Done == 1 }, "it is executed again")
	require.EqualValues(t, 2, tries.Load())
	require.EqualValues(t, 1, a.Status().Failures)
	require.Contains(t, a.Status().LastError, "another process may have executed the item, too")
	require.Zero(t, a.Status().Retries, "the item did not fail")
}

// The leader's lock is lost in the middle: its executors end before the next leader begins.
func TestLeaderIsLostInTheMiddle(t *testing.T) {
	t.Parallel()
	s, l := testbed.New(t, testbed.ShortTTL), newJobs(10)
	first, second := testbed.StartLocks(s), testbed.StartLocks(s)
	begun := make(chan struct{}, 10)
	a, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), Concurrency: 3,
		LeaderLock: processor.Lock(first, "leader"),
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			end := l.begin(item.Key)
			begun <- struct{}{}
			<-ctx.Done()
			end(false)
			return context.Cause(ctx)
		}})
	for range 3 {
		<-begun
	}
	b, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), Concurrency: 3, Execute: l.execute,
		LeaderLock: processor.Lock(second, "leader")})
	first.Faults.CutOff()
	s.Eventually(func() bool { return l.left() == 0 && b.Status().Done == 10 }, "the next leader goes on")
	require.Greater(t, b.Status().Token, a.Status().Token)
	l.requireEachOnce(t, 10)
}

// stoppedLocks are the locks of a node that has stopped.
type stoppedLocks struct{ lock.LockRegistry }

func (stoppedLocks) TryAcquire(context.Context, string, ...lock.Option) (lock.Held, bool, error) {
	return nil, false, lock.ErrStopped
}

func TestNodeHasStopped(t *testing.T) {
	t.Parallel()
	l := newJobs(3)
	a, err := automation.New(automation.Config[int]{Name: "it", Source: l.source(t, stoppedLocks{}), Execute: l.execute,
		Concurrency: 2})
	require.NoError(t, err)
	err = a.Run(t.Context())
	require.ErrorIs(t, err, processor.ErrNoLock)
	require.ErrorIs(t, err, lock.ErrStopped)
	require.Equal(t, 3, l.left())
}

// startEffects starts a process that runs effects.
func startEffects(t *testing.T, s *testbed.TestBed, owner string) (e *effects.Effects, p *processtest.Process) {
	t.Helper()
	p = processtest.Start(t, s.Client.Endpoints()[0], testbed.ShortTTL,
		func(p *processtest.Process) (func(context.Context), error) {
			queues, err := testbed.NewEngine(p, s.Keys.Effects())
			if err != nil {
				return nil, err
			}
			e, err = effects.New(effects.Config{Queues: queues.Queues(s.Keys.Effects()), Keys: s.Keys, Owner: owner})
			return queues.Run, err
		})
	return e, p
}

// With Once, an item whose executor vanished is not executed by another process: it is parked, its outcome unknown.
func TestOnceAcrossProcesses(t *testing.T) {
	t.Parallel()
	s, l := testbed.New(t, testbed.ShortTTL), newJobs(10)
	first, p := startEffects(t, s, "a:1")
	second, _ := startEffects(t, s, "b:1")
	begun := make(chan struct{}, 1)
	var executed atomic.Int64
	execute := func(ctx context.Context, item automation.Item[int]) error {
		if item.Value == 4 {
			executed.Add(1)
			begun <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return l.execute(ctx, item)
	}
	_, _ = run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), Once: first, Execute: execute})
	<-begun
	parked := make(chan error, 1)
	b, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), Once: second, Execute: execute,
		Concurrency: 2, OnPark: func(_ context.Context, item automation.Item[int], err error) error {
			l.begin(item.Key)(true)
			parked <- err
			return nil
		}})
	s.Eventually(func() bool { return l.left() <= 1 }, "the others are executed")
	p.Faults.CutOff()
	require.ErrorIs(t, <-parked, once.ErrUnknown)
	require.EqualValues(t, 1, executed.Load())
	s.Eventually(func() bool { return b.Status().GivenUp == 1 }, "it is counted")
}

package elections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/lifecycle"
)

func TestFirstComeFirstServed(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "outbox")
	first := s.leads(a)
	b, c := s.join(s.b, "outbox"), s.join(s.c, "outbox")
	require.True(t, a.IsLeader())
	l, err := c.WaitForLeader(s.ctx)
	require.NoError(t, err)
	requireLeader(t, "a:1", first.Token(), l)
	require.Equal(t, []string{"a:1", "b:1", "c:1"}, c.Queue())

	require.NoError(t, a.Resign(s.ctx))
	require.ErrorIs(t, context.Cause(first.Context()), leaderelection.ErrTermOver)
	require.ErrorIs(t, context.Cause(first.Context()), elections.ErrResigned)
	require.False(t, first.Valid())
	second := s.leads(b)
	require.Greater(t, second.Token(), first.Token())
	s.eventually(func() bool { return fmt.Sprint(c.Queue()) == "[b:1 c:1 a:1]" }, "a is the last now")
	require.ErrorIs(t, a.Resign(s.ctx), leaderelection.ErrNotLeader)

	require.NoError(t, b.Withdraw(s.ctx))
	require.False(t, b.IsLeader())
	s.leads(c)
	s.eventually(func() bool { return b.Leader().Address == "c:1" }, "it follows on")
	require.ErrorIs(t, b.Lead(s.ctx, nil), leaderelection.ErrWithdrawn)
	require.Len(t, s.queue("outbox"), 2)
}

func TestManyElectionsOneSession(t *testing.T) {
	s := newTestBed(t)
	var led []*elections.Election
	for i := range 50 {
		e, err := s.a.Stand(fmt.Sprint(i))
		require.NoError(t, err)
		same, err := s.a.Stand(fmt.Sprint(i))
		require.NoError(t, err)
		require.Same(t, e, same)
		led = append(led, e)
	}
	for _, e := range led {
		s.leads(e)
	}
	observer := s.observe(s.b, "7")
	l, err := observer.WaitForLeader(s.ctx)
	require.NoError(t, err)
	require.Equal(t, "a:1", l.Address)
	require.ErrorIs(t, observer.Lead(s.ctx, nil), elections.ErrObserver)
	require.Len(t, s.queue("7"), 1)
	leases := map[int64]bool{}
	resp, err := s.client.Get(s.ctx, s.keys.Root(), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		leases[kv.Lease] = true
	}
	require.Len(t, leases, 1)
	_, err = s.a.Stand("")
	require.ErrorIs(t, err, lifecycle.ErrBadName)
}

// A resignation with a context that has ended happens all the same, as soon as etcd answers.
func TestResignIsNotTakenBack(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	held := s.a.Faults.HoldNext(etcdfault.OpTxn, etcdfault.Deleting(s.keys.QueuePrefix("job")))
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	require.ErrorIs(t, a.Resign(ctx), context.Canceled)
	<-held.Caught()
	require.False(t, b.IsLeader(), "etcd does not know")
	require.ErrorIs(t, a.Resign(s.ctx), leaderelection.ErrNotLeader)
	s.leads(b)
	s.eventually(func() bool { return fmt.Sprint(b.Queue()) == "[b:1 a:1]" }, "and queues again")
	require.NoError(t, held.Release(s.ctx))
	require.True(t, b.IsLeader())
}

// Elections with names that begin alike are independent.
func TestNamesAreKeptApart(t *testing.T) {
	s := newTestBed(t)
	var led []*elections.Election
	for _, name := range []string{"a", "a/b", "a/", "/a", "a%2Fb", "\x00"} {
		led = append(led, s.join(s.a, name))
	}
	for _, e := range led {
		s.leads(e)
		require.Len(t, s.queue(e.Name()), 1, "%q", e.Name())
	}
}

// A leader that gives way waits for its work, and only then does the next one lead.
func TestLeadIsAScope(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, term leaderelection.Term) error {
			close(inside)
			<-ctx.Done()
			<-goOn
			return ctx.Err()
		})
	}()
	<-inside
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(s.ctx) }()
	s.eventually(func() bool { return !a.IsLeader() }, "the flag first")
	require.False(t, b.IsLeader(), "its work goes on")
	close(goOn)
	err := <-ended
	require.ErrorIs(t, err, leaderelection.ErrTermOver)
	over, ok := errors.AsType[*leaderelection.TermOverError](err)
	require.True(t, ok)
	require.Equal(t, "job", over.Election)
	require.NoError(t, <-resigned)
	s.leads(b)

	own := errors.New("its own")
	require.Equal(t, own, b.Lead(s.ctx, func(context.Context, leaderelection.Term) error { return own }))
	require.True(t, b.IsLeader(), "that it returns gives nothing up")
}

// Close reports functions of terms that are over, also of those before the last one.
func TestCloseWhileWorkOfAFormerTermGoesOn(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	inside, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		returned <- a.Lead(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(inside)
			<-goOn
			return ctx.Err()
		})
	}()
	<-inside
	require.NoError(t, a.Resign(s.ctx), "not waited for any longer")
	s.leads(a)
	require.ErrorIs(t, s.a.Close(s.ctx), leaderelection.ErrWorkRuns)
	close(goOn)
	require.ErrorIs(t, <-returned, leaderelection.ErrTermOver)
}

// AsLeader's work runs on, and writes, while the leader that gives way waits for it, but not for longer than
// WorkTimeout.
func TestAsLeaderOutlastsTheFlag(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	none := func(context.Context, leaderelection.Term) error { t.Error("it does not lead"); return nil }
	require.ErrorIs(t, b.AsLeader(s.ctx, none), leaderelection.ErrNotLeader)
	run := func(e *elections.Election, key string, wait func(ctx context.Context)) (begun chan struct{},
		ended chan error) {
		begun, ended = make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- e.AsLeader(s.ctx, func(ctx context.Context, term leaderelection.Term) error {
				close(begun)
				wait(ctx)
				if _, err := term.Txn(context.WithoutCancel(ctx)).Then(clientv3.OpPut(key, "1")).Commit(); err != nil {
					return err
				}
				return ctx.Err()
			})
		}()
		return begun, ended
	}
	goOn := make(chan struct{})
	begun, ended := run(a, "/in-time", func(context.Context) { <-goOn })
	<-begun
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(s.ctx) }()
	s.eventually(func() bool { return !a.IsLeader() }, "the flag first")
	require.ErrorIs(t, a.AsLeader(s.ctx, none), leaderelection.ErrNotLeader)
	close(goOn)
	require.NoError(t, <-ended)
	require.NoError(t, <-resigned)
	s.leads(b)

	begun, ended = run(b, "/late", func(ctx context.Context) { <-ctx.Done() })
	<-begun
	require.NoError(t, b.Resign(s.ctx))
	require.ErrorIs(t, <-ended, leaderelection.ErrTermOver, "broken off after WorkTimeout")
	s.leads(a)
	begun, ended = run(a, "/lost", func(ctx context.Context) { <-ctx.Done() })
	<-begun
	_, err := s.client.Delete(s.ctx, s.queue("job")[0])
	require.NoError(t, err)
	err = <-ended
	require.ErrorIs(t, err, leaderelection.ErrTermOver)
	require.Equal(t, leaderelection.ReasonKeyLost, leaderelection.ReasonOf(err))
	got, err := s.client.Get(s.ctx, "/", clientv3.WithRange("0"), clientv3.WithKeysOnly())
	require.NoError(t, err)
	for _, kv := range got.Kvs {
		require.NotContains(t, []string{"/late", "/lost"}, string(kv.Key))
	}
}

func TestWorkThatGoesOnIsWaitedForBounded(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Lead(s.ctx, func(context.Context, leaderelection.Term) error {
			close(inside)
			<-goOn
			return nil
		})
	}()
	<-inside
	require.NoError(t, a.Resign(s.ctx))
	s.leads(b)
	close(goOn)
	<-ended
}

func TestTxnIsFenced(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	resp, err := term.Txn(s.ctx).Then(clientv3.OpPut("/x", "1")).Commit()
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	resp, err = term.Txn(s.ctx).If(clientv3.Compare(clientv3.Value("/x"), "=", "2")).Else(clientv3.OpGet("/x")).Commit()
	require.NoError(t, err)
	require.False(t, resp.Succeeded, "the caller's own comparison")
	_, err = s.client.Delete(s.ctx, s.queue("job")[0])
	require.NoError(t, err)
	_, err = term.Txn(s.ctx).Then(clientv3.OpPut("/x", "2")).Commit()
	require.ErrorIs(t, err, leaderelection.ErrTermOver, "by etcd, if this node has not noticed")
	require.Equal(t, leaderelection.ReasonKeyLost, leaderelection.ReasonOf(err))
}

func TestWatch(t *testing.T) {
	s := newTestBed(t)
	o := s.observe(s.c, "job")
	ctx, cancel := context.WithCancel(s.ctx)
	seen := watchValue(t, o, ctx)
	require.Equal(t, leaderelection.Leader{}, <-seen)
	a := s.join(s.a, "job")
	term := s.leads(a)
	requireLeader(t, "a:1", term.Token(), <-seen)
	require.NoError(t, a.Withdraw(s.ctx))
	require.Equal(t, leaderelection.Leader{}, <-seen)
	cancel()
	for range seen {
	}
}

func TestClose(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	b := s.join(s.b, "job")
	seen, ended := watchValue(t, a, s.ctx), watchValue(t, b, s.ctx)
	require.NoError(t, s.a.Close(s.ctx))
	for range seen {
	}
	_, err := a.Watch(s.ctx)
	require.ErrorIs(t, err, leaderelection.ErrStopped)
	require.ErrorIs(t, context.Cause(term.Context()), leaderelection.ErrStopped)
	s.leads(b)
	_, err = s.a.Stand("another")
	require.ErrorIs(t, err, leaderelection.ErrStopped)
	require.ErrorIs(t, a.Lead(s.ctx, nil), leaderelection.ErrStopped)
	require.Len(t, s.queue("job"), 1)
	s.b.Stop()
	for range ended {
	}
}

func TestStandsAgain(t *testing.T) {
	s := newTestBed(t)
	a := s.observe(s.a, "job")
	require.Empty(t, s.queue("job"))
	s.join(s.a, "job")
	s.leads(a)
	require.NoError(t, a.Withdraw(s.ctx))
	require.Empty(t, s.queue("job"))
	s.observe(s.a, "job")
	require.False(t, a.IsLeader())
	s.join(s.a, "job")
	s.leads(a)
}

// AsLeader's work ends when the leading key is deleted during the wait, because the next one leads at once.
func TestAsLeaderEndsWithTheKey(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	key, err := s.client.Get(s.ctx, s.keys.QueuePrefix("job"), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
	require.NoError(t, err)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.AsLeader(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(begun)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-begun
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(s.ctx) }()
	s.eventually(func() bool { return !a.IsLeader() }, "the flag first")
	_, err = s.client.Delete(s.ctx, string(key.Kvs[0].Key))
	require.NoError(t, err)
	require.Equal(t, leaderelection.ReasonKeyLost, leaderelection.ReasonOf(<-ended), "not by WorkTimeout")
	s.leads(b)
	<-resigned
}

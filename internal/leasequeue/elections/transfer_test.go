package elections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/test/testbed"
)

// requests returns the keys of requests about an election.
func (s *testBed) requests(name string) []string {
	s.Helper()
	return s.KeysWithPrefix(s.keys.Requests().QueuePrefix(name))
}

func TestTransfer(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b, c := s.join(s.b, "job"), s.join(s.c, "job")
	d := s.observe(s.start("d:1"), "job")
	s.eventually(func() bool { return len(d.Queue()) == 3 && len(a.Queue()) == 3 }, "all know")

	require.NoError(t, d.Transfer(s.ctx, "c:1"), "who only follows may ask")
	second := s.leads(c)
	require.ErrorIs(t, context.Cause(first.Context()), elections.ErrGaveWay)
	s.eventually(func() bool {
		q := fmt.Sprint(b.Queue()) // the order of the moves may differ
		return q == "[c:1 b:1 a:1]" || q == "[c:1 a:1 b:1]"
	}, "those who let it pass queue again")
	require.Empty(t, s.requests("job"))

	require.NoError(t, d.Transfer(s.ctx, "c:1"), "it leads already")
	require.True(t, second.Valid())
	s.eventually(func() bool { return len(c.Queue()) == 3 }, "it knows")
	require.NoError(t, c.Transfer(s.ctx, "a:1"), "the leader itself")
	s.leads(a)
	require.ErrorIs(t, d.Transfer(s.ctx, "e:1"), leaderelection.ErrNotCandidate)
	require.ErrorIs(t, d.Transfer(s.ctx, "d:1"), leaderelection.ErrNotCandidate)
	require.Empty(t, s.requests("job"))

	s.eventually(func() bool { return d.Leader().Address == "a:1" }, "it knows")
	require.NoError(t, d.RequestResign(s.ctx))
	s.eventually(func() bool { return d.Leader().Address != "a:1" }, "another one leads")
	empty := s.observe(s.a, "another")
	require.ErrorIs(t, empty.Transfer(s.ctx, "a:1"), leaderelection.ErrNoLeader)
	require.ErrorIs(t, empty.RequestResign(s.ctx), leaderelection.ErrNoLeader)
	alone := s.join(s.b, "alone")
	before := s.leads(alone)
	s.eventually(func() bool { return len(alone.Queue()) == 1 }, "it knows")
	require.NoError(t, alone.RequestResign(s.ctx))
	require.Greater(t, s.leads(alone).Token(), before.Token())
}

func TestTransferToOneThatIsNotPreferred(t *testing.T) {
	s := newTestBed(t)
	a := s.prefer(s.a, "job", 1)
	term := s.leads(a)
	b := s.join(s.b, "job")
	require.ErrorIs(t, b.Transfer(s.ctx, "b:1"), leaderelection.ErrPreferred)
	require.True(t, term.Valid())
}

// A process whose view still shows its former term asks for a transfer to itself: it leads when Transfer returns nil.
func TestTransferToItselfWithAnOldView(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	s.a.Faults.FreezeWatch()
	require.NoError(t, a.Resign(s.ctx))
	s.leads(b)
	soon, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Transfer(soon, "a:1"), leaderelection.ErrNotMoved)
	s.a.Faults.ThawWatch()
	s.queued("job", a, 2)
	require.NoError(t, a.Transfer(s.ctx, "a:1"))
	require.Greater(t, s.leads(a).Token(), first.Token())
}

// The request is withdrawn when the caller's context ends, and does not move any candidate afterwards.
func TestRequestIsTakenBack(t *testing.T) {
	s := newTestBed(t)
	lease, err := s.client.Grant(s.ctx, 20)
	require.NoError(t, err)
	// A key of an older version, which lets no candidate pass.
	_, err = s.client.Put(s.ctx, s.keys.QueuePrefix("job")+fmt.Sprintf("%x-1", int64(lease.ID)), "old:1",
		clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	a, b := s.join(s.a, "job"), s.join(s.b, "job")
	s.eventually(func() bool { return len(a.Queue()) == 3 && len(b.Queue()) == 3 }, "all know")
	ctx, cancel := context.WithCancelCause(s.ctx)
	own := errors.New("its own")
	failed := make(chan error, 1)
	go func() { failed <- a.Transfer(ctx, "b:1") }()
	s.eventually(func() bool { return fmt.Sprint(b.Queue()) == "[old:1 b:1 a:1]" }, "the asker lets it pass itself")
	require.Len(t, s.requests("job"), 1)
	cancel(own)
	err = <-failed
	require.ErrorIs(t, err, leaderelection.ErrNotMoved)
	require.ErrorIs(t, err, own)
	require.Empty(t, s.requests("job"))

	// Two requests at the same time: the first one counts, and the other one fails.
	go func() { failed <- b.Transfer(s.ctx, "a:1") }()
	s.eventually(func() bool { return fmt.Sprint(a.Queue()) == "[old:1 a:1 b:1]" }, "the asker lets it pass itself")
	second := make(chan error, 1)
	go func() { second <- a.Transfer(s.ctx, "b:1") }()
	s.eventually(func() bool { return len(s.requests("job")) == 2 }, "both ask")
	_, err = s.client.Revoke(s.ctx, lease.ID)
	require.NoError(t, err)
	require.NoError(t, <-failed)
	require.ErrorIs(t, <-second, leaderelection.ErrNotMoved)
	s.leads(a)
	require.Empty(t, s.requests("job"))
}

// A target that queues anew has lost the request: no candidate moves for it. The caller may see the target
// without an entry between the two.
func TestTargetQueuesAnew(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(context.Context, leaderelection.Term) error {
			close(inside)
			<-goOn
			return nil
		})
	}()
	<-inside
	b := s.join(s.b, "job")
	s.eventually(func() bool { return len(a.Queue()) == 2 }, "it knows")
	failed := make(chan error, 1)
	go func() { failed <- b.Transfer(s.ctx, "b:1") }()
	<-term.Context().Done()
	_, err := s.b.Stand("job", leaderelection.Priority(-1))
	require.NoError(t, err)
	if err := <-failed; !errors.Is(err, leaderelection.ErrNotCandidate) {
		require.ErrorIs(t, err, leaderelection.ErrNotMoved)
	}
	close(goOn)
	require.NoError(t, <-ended)
}

func TestTargetIsGone(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(inside)
			<-ctx.Done()
			<-time.After(200 * time.Millisecond) // its work takes a while
			return ctx.Err()
		})
	}()
	<-inside
	b, c := s.join(s.b, "job"), s.join(s.c, "job")
	s.eventually(func() bool { return len(a.Queue()) == 3 }, "it knows")
	failed := make(chan error, 1)
	go func() { failed <- a.Transfer(s.ctx, "c:1") }()
	<-term.Context().Done()
	require.NoError(t, c.Withdraw(s.ctx))
	require.ErrorIs(t, <-failed, leaderelection.ErrNotCandidate)
	s.leads(b)
	require.ErrorIs(t, <-ended, leaderelection.ErrTermOver)
	require.Empty(t, s.requests("job"))
}

// An answer to the requester is lost, or it is refused, or cut off.
func TestFaultsOfTheAsker(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	c := s.observe(s.c, "job")
	s.eventually(func() bool { return len(c.Queue()) == 2 && len(a.Queue()) == 2 }, "all know")
	s.c.Faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting(s.keys.Requests().QueuePrefix("job")))
	require.NoError(t, c.Transfer(s.ctx, "b:1"))
	s.leads(b)
	s.eventually(func() bool { return len(s.requests("job")) == 0 }, "as soon as it is known what became of it")

	s.c.Faults.FailNext(
		etcdfault.OpTxn,
		rpctypes.ErrPermissionDenied,
		etcdfault.Putting(s.keys.Requests().QueuePrefix("job")),
	)
	s.eventually(func() bool { return len(c.Queue()) == 2 && c.Leader().Address == "b:1" }, "it knows")
	require.ErrorIs(t, c.Transfer(s.ctx, "a:1"), rpctypes.ErrPermissionDenied)
	require.True(t, b.IsLeader())

	s.c.Faults.CutOff()
	ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Transfer(ctx, "a:1"), leaderelection.ErrNotMoved)
	s.c.Faults.Reconnect()
	require.True(t, b.IsLeader())
	s.eventually(func() bool { return len(s.requests("job")) == 0 }, "as soon as etcd answers, whatever it has done")
}

func TestSessionOfTheAskerIsLost(t *testing.T) {
	s := newTestBedWith(t, testbed.ShortTTL, time.Hour)
	s.join(s.a, "job")
	s.join(s.b, "job")
	c := s.observe(s.c, "job")
	s.eventually(func() bool { return len(c.Queue()) == 2 }, "it knows")
	s.c.Faults.CutOff()
	require.ErrorIs(t, c.Transfer(s.ctx, c.Queue()[1]), leaderelection.ErrNotMoved)
	s.c.Faults.Reconnect()
}

func TestTransferWhenClosed(t *testing.T) {
	s := newTestBed(t)
	lease, err := s.client.Grant(s.ctx, 20)
	require.NoError(t, err)
	_, err = s.client.Put(s.ctx, s.keys.QueuePrefix("job")+fmt.Sprintf("%x-1", int64(lease.ID)), "old:1",
		clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	a, b := s.join(s.a, "job"), s.observe(s.b, "job")
	s.eventually(func() bool { return len(a.Queue()) == 2 && len(b.Queue()) == 2 }, "both know")
	failed := make(chan error, 1)
	go func() { failed <- b.Transfer(s.ctx, "a:1") }()
	s.eventually(func() bool { return len(s.requests("job")) == 1 }, "it asked")
	require.NoError(t, s.b.Close(s.ctx))
	require.ErrorIs(t, <-failed, leaderelection.ErrStopped)
	require.Empty(t, s.requests("job"))
	require.ErrorIs(t, b.Transfer(s.ctx, "a:1"), leaderelection.ErrStopped)
}

// An election is closed: nothing of it is left here until it is requested again.
func TestClosedElection(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	seen := watchValue(t, a, s.ctx)
	<-seen
	b := s.join(s.b, "job")
	require.NoError(t, a.Close(s.ctx))
	require.ErrorIs(t, context.Cause(term.Context()), leaderelection.ErrWithdrawn)
	s.leads(b)
	for range seen {
	}
	require.Zero(t, a.Leader())
	_, err := a.WaitForLeader(s.ctx)
	require.ErrorIs(t, err, leaderelection.ErrClosed)
	require.ErrorIs(t, a.Transfer(s.ctx, "b:1"), leaderelection.ErrClosed)
	require.ErrorIs(t, a.Lead(s.ctx, nil), leaderelection.ErrWithdrawn)
	require.NoError(t, a.Close(s.ctx), "again")
	again := s.join(s.a, "job")
	require.NotSame(t, a, again)
	s.eventually(func() bool { return again.Leader().Address == "b:1" }, "it follows anew")
	require.Len(t, s.queue("job"), 2)
}

// The election is requested again while it is being closed: it stays open.
func TestClosedAndWantedAgain(t *testing.T) {
	s := newTestBed(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(context.Context, leaderelection.Term) error {
			close(inside)
			<-goOn
			return nil
		})
	}()
	<-inside
	closed := make(chan error, 1)
	go func() { closed <- a.Close(s.ctx) }()
	<-term.Context().Done()
	same, err := s.a.Stand("job")
	require.NoError(t, err)
	require.Same(t, a, same)
	close(goOn)
	require.NoError(t, <-ended)
	require.NoError(t, <-closed)
	require.Greater(t, s.leads(a).Token(), term.Token())
}

package elections_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/elections"
	"github.com/goverse/goverse/cluster/internal/queuestest"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/clustertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is three processes and a client that no fault touches.
type scene struct {
	*queuestest.Scene
	ctx         context.Context
	keys        state.Queues
	client      *clientv3.Client
	preferAfter time.Duration
	final       func(error) bool
	a, b, c     *process
}

type process struct {
	*queuestest.Process
	*elections.Elections
}

// newScene is one in which no session is to be lost.
func newScene(t *testing.T) *scene {
	return newSceneWith(t, queuestest.Long, 100*time.Millisecond)
}

func newSceneWith(t *testing.T, ttl, preferAfter time.Duration) *scene {
	t.Parallel()
	s := &scene{Scene: queuestest.New(t, ttl), preferAfter: preferAfter}
	s.ctx, s.keys, s.client = s.Ctx, s.Keys.Elections(), s.Client
	s.a, s.b, s.c = s.start("a:1"), s.start("b:1"), s.start("c:1")
	return s
}

func (s *scene) start(address string) *process {
	s.Helper()
	p := &process{}
	p.Process = s.Start(func(q *queuestest.Process) (func(context.Context), error) {
		var err error
		p.Elections, err = elections.New(elections.Config{Client: q.Client, Keeper: q.Keeper, Queues: s.keys, Address: address,
			WorkTimeout: 500 * time.Millisecond, PreferAfter: s.preferAfter, RequestTimeout: queuestest.RequestTimeout, Final: s.final})
		return p.Run, err
	})
	return p
}

// join has a process stand, and returns when it is in the queue as all see it.
func (s *scene) join(p *process, name string, opts ...elections.Option) *elections.Election {
	s.Helper()
	before := len(s.queue(name))
	e, err := p.Election(name, opts...)
	require.NoError(s, err)
	if len(opts) == 0 {
		s.queued(name, e, before+1)
	}
	return e
}

// prefer has a process stand with a priority, and returns when it is in the queue.
func (s *scene) prefer(p *process, name string, priority int) *elections.Election {
	s.Helper()
	before := len(s.queue(name))
	e := s.join(p, name, elections.Priority(priority))
	s.queued(name, e, before+1)
	return e
}

func (s *scene) queued(name string, e *elections.Election, n int) {
	s.Helper()
	s.eventually(func() bool { return len(s.queue(name)) >= n && len(e.Queue()) >= n }, "it is queued")
}

func (s *scene) queue(name string) []string { s.Helper(); return s.Under(s.keys.Queue(name)) }

func (s *scene) eventually(cond func() bool, what string) { s.Helper(); s.Eventually(cond, what) }

// leads waits until an election is led here, and returns the term.
func (s *scene) leads(e *elections.Election) *elections.Term {
	s.Helper()
	var t *elections.Term
	s.eventually(func() bool { t = e.Term(); return t != nil }, "it leads")
	require.True(s, e.IsLeader())
	return t
}

func TestFirstComeFirstServed(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "outbox")
	first := s.leads(a)
	b, c := s.join(s.b, "outbox"), s.join(s.c, "outbox")
	require.True(t, a.IsLeader())
	l, err := c.WaitForLeader(s.ctx)
	require.NoError(t, err)
	require.Equal(t, elections.Leader{Address: "a:1", Token: first.Token()}, l)
	require.Equal(t, []string{"a:1", "b:1", "c:1"}, c.Queue())

	require.NoError(t, a.Resign(s.ctx))
	require.ErrorIs(t, context.Cause(first.Context()), elections.ErrTermOver)
	require.ErrorIs(t, context.Cause(first.Context()), elections.ErrResigned)
	require.False(t, first.Valid())
	second := s.leads(b)
	require.Greater(t, second.Token(), first.Token())
	s.eventually(func() bool { return fmt.Sprint(c.Queue()) == "[b:1 c:1 a:1]" }, "a is the last now")
	require.ErrorIs(t, a.Resign(s.ctx), elections.ErrNotLeader)

	require.NoError(t, b.Withdraw(s.ctx))
	require.False(t, b.IsLeader())
	s.leads(c)
	s.eventually(func() bool { return b.Leader().Address == "c:1" }, "it follows on")
	require.ErrorIs(t, b.Lead(s.ctx, nil), elections.ErrWithdrawn)
	require.Len(t, s.queue("outbox"), 2)
}

func TestManyElectionsOneSession(t *testing.T) {
	s := newScene(t)
	var led []*elections.Election
	for i := range 50 {
		e, err := s.a.Election(fmt.Sprint(i))
		require.NoError(t, err)
		same, err := s.a.Election(fmt.Sprint(i))
		require.NoError(t, err)
		require.Same(t, e, same)
		led = append(led, e)
	}
	for _, e := range led {
		s.leads(e)
	}
	observer := s.join(s.b, "7", elections.Observe())
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
	_, err = s.a.Election("")
	require.ErrorIs(t, err, state.ErrBadName)
}

// Who resigns with a context that has ended has resigned all the same, as soon as etcd answers.
func TestResignIsNotTakenBack(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	held := s.a.Faults.HoldNext(clustertest.OpTxn, clustertest.Deleting(s.keys.Queue("job")))
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	require.ErrorIs(t, a.Resign(ctx), context.Canceled)
	<-held.Caught()
	require.False(t, b.IsLeader(), "etcd does not know")
	require.ErrorIs(t, a.Resign(s.ctx), elections.ErrNotLeader)
	s.leads(b)
	s.eventually(func() bool { return fmt.Sprint(b.Queue()) == "[b:1 a:1]" }, "and queues again")
	require.NoError(t, held.Release(s.ctx))
	require.True(t, b.IsLeader())
}

// Elections whose names begin alike have nothing to do with each other.
func TestNamesAreKeptApart(t *testing.T) {
	s := newScene(t)
	var led []*elections.Election
	for _, name := range []string{"a", "a/b", "a/", "/a", "a%2Fb", "\x00"} {
		led = append(led, s.join(s.a, name))
	}
	for _, e := range led {
		s.leads(e)
		require.Len(t, s.queue(e.Name()), 1, "%q", e.Name())
	}
}

// Who gives way waits for its work, and the next one leads only then.
func TestLeadIsAScope(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, term *elections.Term) error {
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
	require.ErrorIs(t, err, elections.ErrTermOver)
	over, ok := errors.AsType[*elections.TermOverError](err)
	require.True(t, ok)
	require.Equal(t, "job", over.Election)
	require.NoError(t, <-resigned)
	s.leads(b)

	own := errors.New("its own")
	require.Equal(t, own, b.Lead(s.ctx, func(context.Context, *elections.Term) error { return own }))
	require.True(t, b.IsLeader(), "that it returns gives nothing up")
}

func TestWorkThatGoesOnIsWaitedForBounded(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job")
	s.leads(a)
	b := s.join(s.b, "job")
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Lead(s.ctx, func(context.Context, *elections.Term) error {
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
	s := newScene(t)
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
	require.ErrorIs(t, err, elections.ErrTermOver, "by etcd, if this node has not noticed")
}

// A leader whose session is lost stops leading, and queues again on the next one.
func TestLostSession(t *testing.T) {
	s := newSceneWith(t, queuestest.Short, time.Hour)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	s.a.Faults.CutOff()
	second := s.leads(b)
	require.False(t, first.Valid(), "before the other one led")
	require.False(t, a.IsLeader())
	require.Greater(t, second.Token(), first.Token())
	s.a.Faults.Reconnect()
	s.eventually(func() bool { return fmt.Sprint(b.Queue()) == "[b:1 a:1]" }, "it queues again")
	s.eventually(func() bool { return a.Leader().Address == "b:1" }, "and sees who leads")
	_, lost := errors.AsType[*session.LostError](context.Cause(first.Context()))
	require.True(t, lost)
}

// Hands from outside delete the key of a leader and of one that waits: both notice, and queue
// again at the tail.
func TestKeysAreDeleted(t *testing.T) {
	s := newSceneWith(t, queuestest.Short, time.Hour)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	_, err := s.client.Delete(s.ctx, s.keys.Queue("job"), clientv3.WithPrefix())
	require.NoError(t, err)
	<-first.Context().Done()
	s.eventually(func() bool { return len(s.queue("job")) == 2 && len(b.Queue()) == 2 }, "both queue again")
	s.eventually(func() bool { return a.IsLeader() != b.IsLeader() }, "one leads")
}

// The leader's own watch tells it: the next renewal is twenty minutes away.
func TestKeyOfTheLeaderIsDeleted(t *testing.T) {
	s := newSceneWith(t, time.Hour, time.Hour)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, _ *elections.Term) error {
			close(inside)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-inside
	gone, err := s.client.Delete(s.ctx, first.Key())
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.Deleted)
	s.eventually(func() bool { return first.Context().Err() != nil }, "the term ends")
	require.False(t, first.Valid())
	for _, over := range []error{context.Cause(first.Context()), <-ended} {
		require.ErrorIs(t, over, elections.ErrTermOver)
		require.ErrorIs(t, over, elections.ErrKeyGone)
	}
	second := s.leads(b)
	require.Greater(t, second.Token(), first.Token())
	s.eventually(func() bool { return fmt.Sprint(a.Queue()) == "[b:1 a:1]" }, "it queues again")
	require.True(t, second.Valid())
}

func TestWatch(t *testing.T) {
	s := newScene(t)
	o := s.join(s.c, "job", elections.Observe())
	ctx, cancel := context.WithCancel(s.ctx)
	seen := o.Watch(ctx)
	require.Equal(t, elections.Leader{}, <-seen)
	a := s.join(s.a, "job")
	term := s.leads(a)
	require.Equal(t, elections.Leader{Address: "a:1", Token: term.Token()}, <-seen)
	require.NoError(t, a.Withdraw(s.ctx))
	require.Equal(t, elections.Leader{}, <-seen)
	cancel()
	for range seen {
	}
}

// A watch that tells nothing does not leave who follows with a leader that is none any more.
func TestWatchThatIsSilent(t *testing.T) {
	s := newSceneWith(t, queuestest.Short, time.Hour)
	a := s.join(s.a, "job")
	s.leads(a)
	b, o := s.join(s.b, "job"), s.join(s.c, "job", elections.Observe())
	s.eventually(func() bool { return o.Leader().Address == "a:1" }, "it knows")
	s.c.Faults.FreezeWatch()
	require.NoError(t, a.Withdraw(s.ctx))
	s.leads(b)
	s.eventually(func() bool { return o.Leader().Address == "b:1" }, "it hears of it")
	require.NoError(t, b.Withdraw(s.ctx))
	s.eventually(func() bool { return o.Leader() == elections.Leader{} }, "and that nobody leads")
}

func TestClose(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job")
	term := s.leads(a)
	b := s.join(s.b, "job")
	seen, ended := a.Watch(s.ctx), b.Watch(s.ctx)
	require.NoError(t, s.a.Close(s.ctx))
	for range seen {
	}
	_, open := <-a.Watch(s.ctx)
	require.False(t, open)
	require.ErrorIs(t, context.Cause(term.Context()), elections.ErrClosed)
	s.leads(b)
	_, err := s.a.Election("another")
	require.ErrorIs(t, err, elections.ErrClosed)
	require.ErrorIs(t, a.Lead(s.ctx, nil), elections.ErrClosed)
	require.Len(t, s.queue("job"), 1)
	s.b.Stop()
	for range ended {
	}
}

// etcd refuses this node: it says why, and tries on, at its leisure.
func TestDenied(t *testing.T) {
	s := newScene(t)
	for range 2 {
		s.a.Faults.FailNext(clustertest.OpTxn, rpctypes.ErrPermissionDenied, clustertest.Putting(s.keys.Queue("job")))
	}
	began := time.Now()
	e, err := s.a.Election("job")
	require.NoError(t, err)
	s.eventually(func() bool { return e.Err() != nil }, "it says so")
	require.ErrorIs(t, e.Err(), rpctypes.ErrPermissionDenied)
	s.leads(e)
	require.NoError(t, e.Err())
	require.Greater(t, time.Since(began), time.Second, "not without a pause")
}

// What is final ends the candidacy and not the election: who asks for it again stands again.
func TestDeniedForGood(t *testing.T) {
	s := newScene(t)
	s.final = func(err error) bool { return errors.Is(err, rpctypes.ErrPermissionDenied) }
	p := s.start("d:1")
	putting := clustertest.Putting(s.keys.Queue("job"))
	p.Faults.FailNext(clustertest.OpTxn, rpctypes.ErrNoSpace, putting)
	p.Faults.FailNext(clustertest.OpTxn, rpctypes.ErrPermissionDenied, putting)
	e, err := p.Election("job")
	require.NoError(t, err)
	never := func(context.Context, *elections.Term) error { return errors.New("it leads") }
	require.ErrorIs(t, e.Lead(s.ctx, never), rpctypes.ErrPermissionDenied)
	require.ErrorIs(t, e.Err(), rpctypes.ErrPermissionDenied)
	require.ErrorIs(t, e.Lead(s.ctx, never), rpctypes.ErrPermissionDenied, "it is over")
	_, err = p.Election("job")
	require.NoError(t, err)
	s.leads(e)
	require.NoError(t, e.Err())
}

func TestStandsAgain(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job", elections.Observe())
	require.Empty(t, s.queue("job"))
	s.join(s.a, "job")
	s.leads(a)
	require.NoError(t, a.Withdraw(s.ctx))
	require.Empty(t, s.queue("job"))
	s.join(s.a, "job", elections.Observe())
	require.False(t, a.IsLeader())
	s.join(s.a, "job")
	s.leads(a)
}

// A session that is suspended for a moment, or lost, costs the term, and what runs in it, at once;
// the place is given up, and this node leads again by another one. However the function in Lead
// says that its context ended, Lead says that the term is over.
func TestSessionThatEndsTheTerm(t *testing.T) {
	suspend := func(s *scene, now *session.Session) {
		s.a.Faults.CutOff()
		now.Doubt(20 * time.Millisecond)
	}
	lose := func(_ *scene, now *session.Session) { now.Lose(session.ReasonRevoked, nil) }
	for what, end := range map[string]func(*scene, *session.Session){"suspended": suspend, "lost": lose} {
		for why, say := range map[string]func(context.Context) error{"error": context.Context.Err, "cause": context.Cause} {
			t.Run(what+", "+why, func(t *testing.T) {
				s := newScene(t)
				a := s.join(s.a, "job")
				first := s.leads(a)
				inside, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- a.Lead(s.ctx, func(ctx context.Context, _ *elections.Term) error {
						close(inside)
						<-ctx.Done()
						<-first.Context().Done()
						s.eventually(func() bool { return a.Term() == nil }, "the election knows it too")
						return say(ctx)
					})
				}()
				<-inside
				now := s.a.Keeper.Current()
				end(s, now)
				err := <-ended
				require.ErrorIs(t, err, elections.ErrTermOver)
				require.ErrorAs(t, err, new(*session.LostError))
				require.False(t, first.Valid())
				s.a.Faults.Reconnect()
				s.eventually(a.IsLeader, "it leads again")
				require.Greater(t, a.Term().Token(), first.Token())
				require.Equal(t, what == "suspended", now == s.a.Keeper.Current())
			})
		}
	}
}

// However busy a node's other elections are, one in which nobody works notices that the session is
// suspended and counts again.
func TestSuspendedWhileOthersAreBusy(t *testing.T) {
	s := newScene(t)
	a := s.join(s.a, "job")
	s.leads(a)
	busy, stop := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 20 {
		o := s.join(s.a, fmt.Sprint("other ", i))
		wg.Go(func() {
			for busy.Err() == nil {
				_ = o.Lead(busy, func(ctx context.Context, _ *elections.Term) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}
		})
	}
	wg.Go(func() {
		for busy.Err() == nil {
			_, _ = s.a.Election("other 0") // has it looked at
		}
	})
	now := s.a.Keeper.Current()
	for range 20 {
		s.a.Faults.CutOff()
		now.Doubt(10 * time.Millisecond)
		s.eventually(func() bool { return !now.Valid() }, "suspended")
		s.a.Faults.Reconnect()
		s.eventually(a.IsLeader, "it leads again")
	}
}

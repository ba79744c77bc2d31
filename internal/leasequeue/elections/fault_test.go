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

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/test/testbed"
)

// A leader that loses its session stops leading, and queues again on the next one.
func TestLostSession(t *testing.T) {
	s := newTestBedWith(t, testbed.ShortTTL, time.Hour)
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

// The keys of a leader and of a waiting candidate are deleted out of band: both notice it and queue again at
// the tail.
func TestKeysAreDeleted(t *testing.T) {
	s := newTestBedWith(t, testbed.ShortTTL, time.Hour)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	_, err := s.client.Delete(s.ctx, s.keys.QueuePrefix("job"), clientv3.WithPrefix())
	require.NoError(t, err)
	<-first.Context().Done()
	s.eventually(func() bool { return len(s.queue("job")) == 2 && len(b.Queue()) == 2 }, "both queue again")
	s.eventually(func() bool { return a.IsLeader() != b.IsLeader() }, "one leads")
}

// The leader's own watch reports the deletion: the next renewal is twenty minutes away.
func TestKeyOfTheLeaderIsDeleted(t *testing.T) {
	s := newTestBedWith(t, time.Hour, time.Hour)
	a := s.join(s.a, "job")
	first := s.leads(a)
	b := s.join(s.b, "job")
	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- a.Lead(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
			close(inside)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-inside
	gone, err := s.client.Delete(s.ctx, first.(*elections.Term).Key())
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.Deleted)
	s.eventually(func() bool { return first.Context().Err() != nil }, "the term ends")
	require.False(t, first.Valid())
	for _, over := range []error{context.Cause(first.Context()), <-ended} {
		require.ErrorIs(t, over, leaderelection.ErrTermOver)
		require.ErrorIs(t, over, leaderelection.ErrKeyLost)
	}
	second := s.leads(b)
	require.Greater(t, second.Token(), first.Token())
	s.eventually(func() bool { return fmt.Sprint(a.Queue()) == "[b:1 a:1]" }, "it queues again")
	require.True(t, second.Valid())
}

// A silent watch does not leave a follower with a former leader.
func TestWatchThatIsSilent(t *testing.T) {
	s := newTestBedWith(t, testbed.ShortTTL, time.Hour)
	a := s.join(s.a, "job")
	s.leads(a)
	b, o := s.join(s.b, "job"), s.observe(s.c, "job")
	s.eventually(func() bool { return o.Leader().Address == "a:1" }, "it knows")
	s.c.Faults.FreezeWatch()
	require.NoError(t, a.Withdraw(s.ctx))
	s.leads(b)
	s.eventually(func() bool { return o.Leader().Address == "b:1" }, "it hears of it")
	require.NoError(t, b.Withdraw(s.ctx))
	s.eventually(func() bool { return o.Leader() == leaderelection.Leader{} }, "and that nobody leads")
}

// etcd refuses this node: Err returns the reason, and the node retries at a slow pace.
func TestDenied(t *testing.T) {
	s := newTestBed(t)
	for range 2 {
		s.a.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrPermissionDenied, etcdfault.Putting(s.keys.QueuePrefix("job")))
	}
	began := time.Now()
	e, err := s.a.Stand("job")
	require.NoError(t, err)
	s.eventually(func() bool { return e.Err() != nil }, "it says so")
	require.ErrorIs(t, e.Err(), rpctypes.ErrPermissionDenied)
	s.leads(e)
	require.NoError(t, e.Err())
	require.Greater(t, time.Since(began), time.Second, "not without a pause")
}

// A final refusal ends the candidacy but not the election: a new Stand starts a new candidacy.
func TestDeniedForGood(t *testing.T) {
	s := newTestBed(t)
	s.final = func(err error) bool { return errors.Is(err, rpctypes.ErrPermissionDenied) }
	p := s.start("d:1")
	putting := etcdfault.Putting(s.keys.QueuePrefix("job"))
	p.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrNoSpace, putting)
	p.Faults.FailNext(etcdfault.OpTxn, rpctypes.ErrPermissionDenied, putting)
	e, err := p.Stand("job")
	require.NoError(t, err)
	never := func(context.Context, leaderelection.Term) error { return errors.New("it leads") }
	require.ErrorIs(t, e.Lead(s.ctx, never), rpctypes.ErrPermissionDenied)
	require.ErrorIs(t, e.Err(), rpctypes.ErrPermissionDenied)
	require.ErrorIs(t, e.Lead(s.ctx, never), rpctypes.ErrPermissionDenied, "it is over")
	_, err = p.Stand("job")
	require.NoError(t, err)
	s.leads(e)
	require.NoError(t, e.Err())
}

// A session that is suspended for a moment, or lost, ends the term and its work at once. The entry is released,
// and this node leads again with another one. Whatever error the function in Lead returns for its context,
// Lead's error says that the term is over.
func TestSessionThatEndsTheTerm(t *testing.T) {
	suspend := func(s *testBed, now *etcdsession.Session) {
		s.a.Faults.CutOff()
		now.Suspect(0, 20*time.Millisecond)
	}
	lose := func(_ *testBed, now *etcdsession.Session) { now.EndLocally(session.ReasonRevoked, nil) }
	for what, end := range map[string]func(*testBed, *etcdsession.Session){"suspended": suspend, "lost": lose} {
		for why, say := range map[string]func(context.Context) error{"error": context.Context.Err, "cause": context.Cause} {
			t.Run(what+", "+why, func(t *testing.T) {
				s := newTestBed(t)
				a := s.join(s.a, "job")
				first := s.leads(a)
				inside, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- a.Lead(s.ctx, func(ctx context.Context, _ leaderelection.Term) error {
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
				require.ErrorIs(t, err, leaderelection.ErrTermOver)
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

// However busy a node's other elections are, one without work notices that the session is suspended and valid
// again.
func TestSuspendedWhileOthersAreBusy(t *testing.T) {
	s := newTestBed(t)
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
				_ = o.Lead(busy, func(ctx context.Context, _ leaderelection.Term) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}
		})
	}
	wg.Go(func() {
		for busy.Err() == nil {
			_, _ = s.a.Stand("other 0") // makes Run look at it
		}
	})
	now := s.a.Keeper.Current()
	for range 20 {
		s.a.Faults.CutOff()
		now.Suspect(0, 10*time.Millisecond)
		s.eventually(func() bool { return !now.Valid() }, "suspended")
		s.a.Faults.Reconnect()
		s.eventually(a.IsLeader, "it leads again")
	}
}

// The leader's own Leader names it, even while its watch does not show its entry yet, and no more once it gives
// way.
func TestLeaderIsWhoLeads(t *testing.T) {
	s := newTestBed(t)
	s.b.Faults.FreezeWatch()
	e, err := s.b.Stand("e")
	require.NoError(t, err)
	term := s.leads(e)
	requireLeader(t, "b:1", term.Token(), e.Leader())
	s.b.Faults.ThawWatch()
	before := e.Leader()
	s.eventually(func() bool { return len(e.Queue()) == 1 }, "its watch shows it")
	require.Equal(t, before, e.Leader())
	o := s.observe(s.a, "e")
	s.eventually(func() bool { return o.Leader() == before }, "others say the same")

	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- e.Lead(s.ctx, func(context.Context, leaderelection.Term) error { close(begun); <-end; return nil })
	}()
	<-begun
	go func() { ended <- e.Resign(s.ctx) }()
	s.eventually(func() bool { return !e.IsLeader() }, "it gives way")
	require.Zero(t, e.Leader())
	close(end)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

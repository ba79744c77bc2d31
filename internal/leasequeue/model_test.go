package leasequeue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// testBed is a model of etcd in virtual time.
type testBed struct {
	*testing.T
	e    *modeletcd.Etcd
	keys state.Queues
	wg   sync.WaitGroup
	ctx  context.Context
}

func play(t *testing.T, do func(s *testBed)) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := state.NewKeys("/model")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		s := &testBed{T: t, e: modeletcd.New(), keys: keys.Locks(), ctx: ctx}
		defer s.e.Close()
		defer s.wg.Wait()
		defer cancel()
		do(s)
	})
}

// queues returns the queues of a process. Its requests take 2 ms unless delivery says otherwise.
func (s *testBed) queues(delivery func(request any) modeletcd.Delivery, change ...func(*etcdsession.Config)) *Queues {
	conn := s.e.Connect("", func(request any) modeletcd.Delivery {
		f := delivery(request)
		f.Out, f.Back = max(f.Out, time.Millisecond), max(f.Back, time.Millisecond)
		return f
	})
	cfg := etcdsession.Config{Process: etcd.Process{Client: conn.Client()}, TTL: 2 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	keeper, err := etcdsession.NewKeeper(cfg, etcdsession.Hooks{})
	require.NoError(s, err)
	e, err := New(Config{Process: etcd.Process{Client: cfg.Client, RequestTimeout: time.Second}, Keeper: keeper}, s.keys)
	require.NoError(s, err)
	s.wg.Go(func() { _ = keeper.Run(s.ctx) })
	s.wg.Go(func() { e.Run(s.ctx) })
	return e.Queues(s.keys)
}

func (s *testBed) enter(q *Queues, want EntrySpec) *Entry {
	s.Helper()
	x, err := q.Enter(s.ctx, want)
	require.NoError(s, err)
	return x
}

// occupy makes each lane send something, so that entries made before the answers go together.
func (s *testBed) occupy(q *Queues) {
	s.Helper()
	for i := range laneCount {
		s.enter(q, EntrySpec{Name: fmt.Sprint(i)})
		synctest.Wait() // a lane has taken it
	}
}

func well(any) modeletcd.Delivery { return modeletcd.Delivery{} }

// An entry that its process may not delete blocks its queue until the deletion is allowed.
func TestLeavesWhenItMay(t *testing.T) {
	play(t, func(s *testBed) {
		var denied atomic.Bool
		a := s.queues(func(request any) (f modeletcd.Delivery) {
			if r, ok := request.(*pb.TxnRequest); ok && denied.Load() {
				for _, op := range r.Success {
					if op.GetRequestDeleteRange() != nil {
						f.Refused = modeletcd.Denied
					}
				}
			}
			return f
		})
		b := s.queues(well)
		held := s.awaitGrant(s.enter(a, EntrySpec{Name: "it"}), time.Second)
		waiting := s.enter(b, EntrySpec{Name: "it"})
		denied.Store(true)
		lost, err := held.ReleaseAndWait(s.ctx)
		require.NoError(s, lost)
		require.ErrorIs(s, err, rpctypes.ErrPermissionDenied)
		<-time.After(time.Minute)
		require.Len(s, s.e.Keys(held.Key()), 1)
		denied.Store(false)
		s.awaitGrant(waiting, time.Second)
		<-time.After(time.Second)
		require.NoError(s, held.AwaitDeletion(s.ctx), "it is by now")
	})
}

// A batch was committed and its answer lost; then the batch and the question about its outcome were denied. Its
// key must not be used again while it may stand.
func TestRefusedAfterSilence(t *testing.T) {
	play(t, func(s *testBed) {
		var batches, allowed atomic.Int64
		e := s.queues(func(request any) (f modeletcd.Delivery) {
			if _, ok := request.(*pb.TxnRequest); !ok || allowed.Load() > 0 {
				return f
			}
			if batches.Add(1) == 1 {
				return modeletcd.Delivery{Unanswered: true, Broken: 5 * time.Millisecond}
			}
			return modeletcd.Delivery{Refused: modeletcd.Denied}
		})
		x := s.enter(e, EntrySpec{Name: "it"})
		<-x.Decided()
		_, err := x.Outcome()
		require.ErrorIs(s, err, rpctypes.ErrPermissionDenied)
		require.Len(s, s.e.Keys(x.Key()), 1, "it stands all the same")
		allowed.Store(1)
		for i := range 2 * laneCount { // each lane finds the outcome of its batch
			<-s.enter(e, EntrySpec{Name: fmt.Sprint(i)}).Decided()
		}
		again := s.enter(e, EntrySpec{Name: "it"})
		s.awaitGrant(again, time.Second)
		stands := s.e.Keys(again.Key())
		require.Len(s, stands, 1)
		require.Equal(s, stands[0].CreateRevision, again.Token())
		<-time.After(2 * time.Second)
		require.Empty(s, s.e.Keys(x.Key()))
		last := s.enter(e, EntrySpec{Name: "it"})
		require.Equal(s, x.Key(), last.Key(), "it is free again")
	})
}

// The same with a batch of two. Neither half may be sent again as if the whole had not been committed.
func TestRefusedAfterSilenceOfMany(t *testing.T) {
	play(t, func(s *testBed) {
		var batches atomic.Int64
		e := s.queues(func(request any) (f modeletcd.Delivery) {
			if _, ok := request.(*pb.TxnRequest); !ok {
				return f
			}
			switch n := batches.Add(1); {
			case n <= laneCount: // long enough for the next two to go together
				f.Out = time.Duration(n) * 100 * time.Millisecond
			case n == laneCount+1:
				f.Unanswered, f.Broken = true, 5*time.Millisecond
			case n <= laneCount+4: // the question about the outcome, the next attempt, and the question about that
				f.Refused = modeletcd.Denied
			}
			return f
		})
		s.occupy(e)
		for _, x := range []*Entry{s.enter(e, EntrySpec{Name: "one"}), s.enter(e, EntrySpec{Name: "two"})} {
			<-x.Decided()
			stands := s.e.Keys(x.Key())
			require.Len(s, stands, 1)
			require.EqualValues(s, 1, stands[0].Version, "put once")
			if g, err := x.Outcome(); err == nil {
				require.Equal(s, stands[0].CreateRevision, g.Token())
			} else {
				require.ErrorIs(s, err, rpctypes.ErrPermissionDenied)
			}
		}
	})
}

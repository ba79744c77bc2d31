package queues

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/cluster/internal/modeletcd"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
)

// scene is a model of etcd, in virtual time.
type scene struct {
	*testing.T
	e    *modeletcd.Etcd
	keys state.Queues
	wg   sync.WaitGroup
	ctx  context.Context
}

func play(t *testing.T, do func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := state.NewKeys("/model")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		s := &scene{T: t, e: modeletcd.New(), keys: keys.Locks(), ctx: ctx}
		defer s.e.Close()
		defer s.wg.Wait()
		defer cancel()
		do(s)
	})
}

// engine is a process's, whose requests take 2 ms if nothing else is their fate.
func (s *scene) engine(fate func(request any) modeletcd.Fate) *Engine {
	conn := s.e.Connect("", func(request any) modeletcd.Fate {
		f := fate(request)
		f.Out, f.Back = max(f.Out, time.Millisecond), max(f.Back, time.Millisecond)
		return f
	})
	client := conn.Client()
	keeper, err := session.NewKeeper(session.KeeperConfig{Config: session.Config{Client: client, TTL: 2 * time.Second}})
	require.NoError(s, err)
	e := New(Config{Client: client, Keeper: keeper, Keys: s.keys, RequestTimeout: time.Second})
	s.wg.Go(func() { _ = keeper.Run(s.ctx) })
	s.wg.Go(func() { e.Run(s.ctx) })
	return e
}

func (s *scene) enter(e *Engine, p Place) *Entry {
	s.Helper()
	x, err := e.Enter(s.ctx, p)
	require.NoError(s, err)
	return x
}

func well(any) modeletcd.Fate { return modeletcd.Fate{} }

// A place that a process may not give up is in everybody's way until it may.
func TestLeavesWhenItMay(t *testing.T) {
	play(t, func(s *scene) {
		var denied atomic.Bool
		a := s.engine(func(request any) (f modeletcd.Fate) {
			if r, ok := request.(*pb.TxnRequest); ok && denied.Load() {
				for _, op := range r.Success {
					if op.GetRequestDeleteRange() != nil {
						f.Refused = modeletcd.Denied
					}
				}
			}
			return f
		})
		b := s.engine(well)
		held := s.enter(a, Place{Name: "it"})
		<-held.Settled()
		waiting := s.enter(b, Place{Name: "it"})
		denied.Store(true)
		require.NoError(s, held.Leave(s.ctx))
		time.Sleep(time.Minute)
		require.Len(s, s.e.Keys(held.Key()), 1)
		denied.Store(false)
		select {
		case <-waiting.Settled():
			require.NoError(s, waiting.Err())
		case <-time.After(time.Second):
			s.Error("nobody gives it up")
		}
	})
}

package leasequeue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// A holder knows at once that the session's deadline has passed, even before the session's own goroutines notice. Its
// release reports that the grant was lost. The reason is that of the session.
func TestHolderKnowsOfThePassedDeadline(t *testing.T) {
	var late atomic.Int64
	clock := func() deadline.Instant { return deadline.Now().Add(time.Duration(late.Load())) }
	play(t, func(s *testBed) {
		q := s.queues(well, func(c *etcdsession.Config) { c.Clock = clock })
		g := s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), time.Second)
		require.True(s, g.Valid())
		require.NoError(s, g.EndCause())
		late.Store(int64(time.Hour))
		require.False(s, g.Valid())
		require.NoError(s, g.Period().Context().Err(), "the session has not noticed")
		why := g.EndCause()
		require.ErrorIs(s, why, session.ErrLost)
		work, _, stop := g.Within(s.ctx)
		defer stop()
		require.Equal(s, why, context.Cause(work))
		lost, err := g.ReleaseAndWait(s.ctx)
		require.Equal(s, why, lost)
		require.NoError(s, err)
		require.Equal(s, why, context.Cause(g.Context()))
		<-g.Period().Context().Done()
		require.Equal(s, why, context.Cause(g.Period().Context()))
		require.Equal(s, session.ReasonPaused, session.ReasonOf(why))
	})
}

// The contexts of a grant end with the first reason for which its holder must stop.
func TestContextsEndWithTheFirstReason(t *testing.T) {
	play(t, func(s *testBed) {
		q := s.queues(well)
		g := s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), time.Second)
		before := g.Context()
		work, _, stop := g.Within(s.ctx)
		first := errors.New("first")
		g.Revoke(first)
		g.Revoke(errors.New("second"))
		require.Len(s, s.e.Keys(g.Key()), 1, "its key stands until it is released")
		lost, err := g.ReleaseAndWait(s.ctx)
		require.Equal(s, first, lost)
		require.NoError(s, err)
		after, _, stopAfter := g.Within(s.ctx)
		for _, ctx := range []context.Context{before, work, after, g.Context()} {
			require.Equal(s, first, context.Cause(ctx))
		}
		require.NoError(s, g.Period().Context().Err())
		require.Len(s, g.contexts, 3)
		stop()
		stopAfter()
		require.Len(s, g.contexts, 1, "what was added is forgotten")
	})
}

// A deletion whose answer was too long for the connection is sent again, because it was carried out.
func TestDeletionWithALongAnswer(t *testing.T) {
	play(t, func(s *testBed) {
		var long atomic.Bool
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			r, ok := request.(*pb.TxnRequest)
			if ok && deletes(r, s.keys.QueuePrefix("it")) && long.Swap(false) {
				f.Refused = status.Error(codes.ResourceExhausted, "the answer is too long")
			}
			return f
		})
		g := s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), time.Second)
		long.Store(true)
		lost, err := g.ReleaseAndWait(s.ctx)
		require.NoError(s, lost)
		require.NoError(s, err)
		require.False(s, long.Load())
	})
}

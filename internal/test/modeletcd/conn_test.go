package modeletcd

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// testBed is a model with two connections. The requests of the first one have the delivery next.
type testBed struct {
	*testing.T
	e           *Etcd
	conn        *Conn
	next        Delivery // of all requests from now on
	client, way *clientv3.Client
}

func runTestBed(t *testing.T, do func(s *testBed)) {
	synctest.Test(t, func(t *testing.T) {
		s := &testBed{T: t, e: New()}
		defer s.e.Close()
		s.conn = s.e.Connect("a", func(any) Delivery { return s.next })
		s.client, s.way = s.conn.Client(), s.e.Connect("b", func(any) Delivery { return Delivery{} }).Client()
		do(s)
	})
}

// putKey puts a key and waits at most a second for the answer.
func (s *testBed) putKey(key string) error {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	_, err := s.client.Put(ctx, key, "")
	return err
}

func (s *testBed) hasKey(key string) bool { return len(s.e.Keys(key)) == 1 }

func TestDeliveries(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		began := time.Now()
		s.next = Delivery{Out: 100 * time.Millisecond, Back: 200 * time.Millisecond}
		require.NoError(s, s.putKey("answered"))
		require.Equal(s, 300*time.Millisecond, time.Since(began))
		s.next = Delivery{Unanswered: true}
		require.ErrorIs(s, s.putKey("unanswered"), context.DeadlineExceeded)
		require.True(s, s.hasKey("unanswered"))
		s.next = Delivery{Lost: true}
		require.ErrorIs(s, s.putKey("lost"), context.DeadlineExceeded)
		s.next = Delivery{Out: 3 * time.Second}
		require.ErrorIs(s, s.putKey("late"), context.DeadlineExceeded)
		require.False(s, s.hasKey("late"))
		<-time.After(2*time.Second + 1)
		require.True(s, s.hasKey("late"), "though it was given up")
		s.next = Delivery{Out: 2, Broken: 1}
		require.True(s, isUnavailable(s.putKey("broken")))
		<-time.After(2 * time.Nanosecond)
		require.True(s, s.hasKey("broken"))
		s.next = Delivery{Refused: Denied}
		require.ErrorIs(s, s.putKey("denied"), rpctypes.ErrPermissionDenied)
		require.False(s, s.hasKey("lost") || s.hasKey("denied"))
		s.next = Delivery{Instead: rpctypes.ErrGRPCNoSpace}
		require.ErrorIs(s, s.putKey("instead"), rpctypes.ErrNoSpace)
		require.True(s, s.hasKey("instead"))
		s.next = Delivery{}
		s.e.SetNoSpace(true)
		for i := range txnsBeforeAlarm {
			key := fmt.Sprint("under way ", i)
			require.ErrorIs(s, s.putKey(key), rpctypes.ErrNoSpace)
			require.True(s, s.hasKey(key))
		}
		require.ErrorIs(s, s.putKey("full"), rpctypes.ErrNoSpace)
		require.False(s, s.hasKey("full"))
		_, err := s.client.Delete(s.Context(), "late")
		require.NoError(s, err)
		require.False(s, s.hasKey("late"))
	})
}

func isUnavailable(err error) bool {
	return clientv3.ContextError(context.Background(), errUnavailable).Error() == err.Error()
}

func TestHeldUp(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		s.conn.SetHeld(true)
		require.ErrorIs(s, s.putKey("a"), context.DeadlineExceeded)
		require.False(s, s.hasKey("a"))
		s.conn.SetHeld(false)
		synctest.Wait()
		require.True(s, s.hasKey("a"))
	})
}

func TestLeases(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		grant, err := s.client.Grant(s.Context(), 2)
		require.NoError(s, err)
		put := func(key string) error {
			_, err := s.client.Put(s.Context(), key, "", clientv3.WithLease(grant.ID))
			return err
		}
		require.NoError(s, put("a"))
		<-time.After(time.Second)
		kept, err := s.client.KeepAliveOnce(s.Context(), grant.ID)
		require.NoError(s, err)
		require.EqualValues(s, 2, kept.TTL)
		<-time.After(2*time.Second - 1)
		require.True(s, s.hasKey("a"))
		<-time.After(time.Nanosecond)
		synctest.Wait()
		require.False(s, s.hasKey("a"))
		require.ErrorIs(s, put("a"), rpctypes.ErrLeaseNotFound)
		_, err = s.client.KeepAliveOnce(s.Context(), grant.ID)
		require.ErrorIs(s, err, rpctypes.ErrLeaseNotFound)
	})
}

// TestWatch checks that a watch delivers everything once and in order, whatever breaks, until history it needs
// is compacted.
func TestWatch(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		watch := s.client.Watch(ctx, "k", clientv3.WithPrefix())
		require.True(s, (<-watch).Created)
		put := func(key string) { _, _ = s.way.Put(s.Context(), key, "") }
		notified := func(key string) {
			s.Helper()
			resp := <-watch
			require.NoError(s, resp.Err())
			require.Equal(s, key, string(resp.Events[0].Kv.Key))
		}
		silent := func() {
			s.Helper()
			synctest.Wait()
			select {
			case resp := <-watch:
				s.Error(resp)
			default:
			}
		}
		put("k1")
		notified("k1")
		s.next = Delivery{Back: time.Second}
		put("k2")
		s.next = Delivery{}
		s.conn.BreakWatches()
		notified("k2")
		silent()
		s.conn.SetFrozen(true)
		put("other")
		put("k3")
		silent()
		s.conn.SetFrozen(false)
		notified("k3")
		s.conn.SetHeld(true)
		put("k4")
		put("k5")
		s.e.Compact()
		s.conn.SetHeld(false)
		resp := <-watch
		require.ErrorIs(s, resp.Err(), rpctypes.ErrCompacted)
		_, open := <-watch
		require.False(s, open)
		watch = s.client.Watch(ctx, "k", clientv3.WithPrefix())
		require.True(s, (<-watch).Created)
		s.conn.AbortWatches()
		resp = <-watch
		require.Error(s, resp.Err())
		cancel()
		synctest.Wait()
	})
}

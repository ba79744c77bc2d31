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

func play(t *testing.T, do func(s *testBed)) {
	synctest.Test(t, func(t *testing.T) {
		s := &testBed{T: t, e: New()}
		defer s.e.Close()
		s.conn = s.e.Connect("a", func(any) Delivery { return s.next })
		s.client, s.way = s.conn.Client(), s.e.Connect("b", func(any) Delivery { return Delivery{} }).Client()
		do(s)
	})
}

// put puts a key and waits at most a second for the answer.
func (s *testBed) put(key string) error {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	_, err := s.client.Put(ctx, key, "")
	return err
}

func (s *testBed) there(key string) bool { return len(s.e.Keys(key)) == 1 }

func TestDeliveries(t *testing.T) {
	play(t, func(s *testBed) {
		began := time.Now()
		s.next = Delivery{Out: 100 * time.Millisecond, Back: 200 * time.Millisecond}
		require.NoError(s, s.put("answered"))
		require.Equal(s, 300*time.Millisecond, time.Since(began))
		s.next = Delivery{Unanswered: true}
		require.ErrorIs(s, s.put("unanswered"), context.DeadlineExceeded)
		require.True(s, s.there("unanswered"))
		s.next = Delivery{Lost: true}
		require.ErrorIs(s, s.put("lost"), context.DeadlineExceeded)
		s.next = Delivery{Out: 3 * time.Second}
		require.ErrorIs(s, s.put("late"), context.DeadlineExceeded)
		require.False(s, s.there("late"))
		<-time.After(2*time.Second + 1)
		require.True(s, s.there("late"), "though it was given up")
		s.next = Delivery{Out: 2, Broken: 1}
		require.True(s, unavailable(s.put("broken")))
		<-time.After(2 * time.Nanosecond)
		require.True(s, s.there("broken"))
		s.next = Delivery{Refused: Denied}
		require.ErrorIs(s, s.put("denied"), rpctypes.ErrPermissionDenied)
		require.False(s, s.there("lost") || s.there("denied"))
		s.next = Delivery{Instead: rpctypes.ErrGRPCNoSpace}
		require.ErrorIs(s, s.put("instead"), rpctypes.ErrNoSpace)
		require.True(s, s.there("instead"))
		s.next = Delivery{}
		s.e.SetNoSpace(true)
		for i := range beforeAlarm {
			key := fmt.Sprint("under way ", i)
			require.ErrorIs(s, s.put(key), rpctypes.ErrNoSpace)
			require.True(s, s.there(key))
		}
		require.ErrorIs(s, s.put("full"), rpctypes.ErrNoSpace)
		require.False(s, s.there("full"))
		_, err := s.client.Delete(s.Context(), "late")
		require.NoError(s, err)
		require.False(s, s.there("late"))
	})
}

func unavailable(err error) bool {
	return clientv3.ContextError(context.Background(), errUnavailable).Error() == err.Error()
}

func TestHeldUp(t *testing.T) {
	play(t, func(s *testBed) {
		s.conn.Hold(true)
		require.ErrorIs(s, s.put("a"), context.DeadlineExceeded)
		require.False(s, s.there("a"))
		s.conn.Hold(false)
		synctest.Wait()
		require.True(s, s.there("a"))
	})
}

func TestLeases(t *testing.T) {
	play(t, func(s *testBed) {
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
		require.True(s, s.there("a"))
		<-time.After(time.Nanosecond)
		synctest.Wait()
		require.False(s, s.there("a"))
		require.ErrorIs(s, put("a"), rpctypes.ErrLeaseNotFound)
		_, err = s.client.KeepAliveOnce(s.Context(), grant.ID)
		require.ErrorIs(s, err, rpctypes.ErrLeaseNotFound)
	})
}

// TestWatch checks that a watch delivers everything once and in order, whatever breaks, until history it needs
// is compacted.
func TestWatch(t *testing.T) {
	play(t, func(s *testBed) {
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
		s.conn.Break()
		notified("k2")
		silent()
		s.conn.Freeze(true)
		put("other")
		put("k3")
		silent()
		s.conn.Freeze(false)
		notified("k3")
		s.conn.Hold(true)
		put("k4")
		put("k5")
		s.e.Compact()
		s.conn.Hold(false)
		resp := <-watch
		require.ErrorIs(s, resp.Err(), rpctypes.ErrCompacted)
		_, open := <-watch
		require.False(s, open)
		watch = s.client.Watch(ctx, "k", clientv3.WithPrefix())
		require.True(s, (<-watch).Created)
		s.conn.Abort()
		resp = <-watch
		require.Error(s, resp.Err())
		cancel()
		synctest.Wait()
	})
}

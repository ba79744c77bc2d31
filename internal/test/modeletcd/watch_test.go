package modeletcd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// receiveNow reports whether a watch delivers a response at this instant, and returns it.
func receiveNow(watch clientv3.WatchChan) (resp clientv3.WatchResponse, heard bool) {
	synctest.Wait()
	select {
	case resp, heard = <-watch:
	default:
	}
	return resp, heard
}

func TestWatchesReportProgress(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		watch := s.client.Watch(s.Context(), "k", clientv3.WithRange("l"), clientv3.WithRev(2))
		resp, _ := receiveNow(watch)
		require.True(s, resp.Created, "though it begins at a revision")
		require.NoError(s, s.putKey("elsewhere"))
		require.NoError(s, s.client.RequestProgress(s.Context()))
		resp, heard := receiveNow(watch)
		require.True(s, heard)
		require.True(s, resp.IsProgressNotify())
		require.Equal(s, s.e.Revision(), resp.Header.Revision)

		s.conn.SetProxied(true)
		require.NoError(s, s.client.RequestProgress(s.Context()))
		_, heard = receiveNow(watch)
		require.False(s, heard, "a proxy reports none")

		require.NoError(s, s.putKey("k1"))
		resp, _ = receiveNow(watch)
		require.Len(s, resp.Events, 1)
	})
}

func TestWatchesFallSilent(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		watch := s.client.Watch(s.Context(), "k", clientv3.WithPrefix())
		_, _ = receiveNow(watch)
		s.conn.SilenceWatches(false)
		require.NoError(s, s.putKey("k1"))
		_, heard := receiveNow(watch)
		require.False(s, heard)
		s.conn.BreakWatches()
		resp, _ := receiveNow(watch)
		require.Len(s, resp.Events, 1, "a client that opens it anew misses nothing")

		s.conn.SilenceWatches(true)
		require.NoError(s, s.putKey("k2"))
		_, heard = receiveNow(watch)
		require.False(s, heard, "the one that is opened then is silent")
		other := s.client.Watch(s.Context(), "k", clientv3.WithPrefix())
		_, _ = receiveNow(other)
		require.NoError(s, s.putKey("k3"))
		_, heard = receiveNow(other)
		require.True(s, heard, "and the one after that is not")
	})
}

// TestEtcdIsAwayAndBegins checks that headers of watches have the raft term of the events delivered.
func TestEtcdIsAwayAndBegins(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		watch := s.client.Watch(s.Context(), "k", clientv3.WithPrefix())
		_, _ = receiveNow(watch)
		lease := s.e.Grant(10)
		<-time.After(9 * time.Second)
		term := s.e.Term()
		s.e.SetDown(true)
		require.Error(s, s.putKey("k1"), "it is not answered in time")
		<-time.After(9 * time.Second)
		s.e.SetDown(false)
		require.True(s, s.hasKey("k1"), "what has arrived is carried out")
		require.Equal(s, term+1, s.e.Term())
		resp, _ := receiveNow(watch)
		require.Equal(s, term+1, resp.Header.RaftTerm)
		require.Equal(s, []Lease{{ID: lease, Granted: term, Ends: time.Now().Add(10 * time.Second)}}, s.e.Leases())

		s.e.Elect(0)
		require.Equal(s, term+2, s.e.Term(), "also where nobody else could be elected")
	})
}

func TestDeliveriesAreNoted(t *testing.T) {
	runTestBed(t, func(s *testBed) {
		var noted []time.Duration
		began := time.Now()
		note := func(answer any, err error) {
			require.NoError(s, err)
			require.NotNil(s, answer)
			noted = append(noted, time.Since(began))
		}
		s.next = Delivery{Out: 1, Back: 2, CarriedOut: note, Answered: note}
		require.NoError(s, s.putKey("k"))
		require.Equal(s, []time.Duration{1, 3}, noted)
		s.next.Unanswered = true
		require.Error(s, s.putKey("k"))
		synctest.Wait()
		require.Len(s, noted, 3, "carried out")
	})
}

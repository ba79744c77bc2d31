package etcdsession

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

const (
	ownKey     = "/g/nodes/a"
	accusation = "/g/accused/a/w"
	ofSilence  = "/g/accused-silent/a/w"
	accusedTTL = 30 * time.Second
	theWatcher = 7
	theArming  = 1
)

// accused is a session whose holder may be accused, in virtual time.
type accused struct {
	*Session
	t    *testing.T
	etcd *modeletcd.Etcd
	conn *modeletcd.Conn

	mu      sync.Mutex
	refuted []string
	lost    bool // requests are lost
	hang    bool // renewals are lost
	slow    time.Duration
	txns    int
}

func inVirtualTime(t *testing.T, f func(a *accused)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &accused{t: t, etcd: modeletcd.New()}
		defer a.etcd.Close()
		a.conn = a.etcd.Connect("", func(request any) modeletcd.Delivery {
			a.mu.Lock()
			defer a.mu.Unlock()
			if _, txn := request.(*pb.TxnRequest); txn {
				a.txns++
			}
			_, renewal := request.(*pb.LeaseKeepAliveRequest)
			return modeletcd.Delivery{Lost: a.lost || a.hang && renewal, Out: time.Millisecond + a.slow,
				Back: time.Millisecond}
		})
		s, err := Open(t.Context(), Config{TTL: accusedTTL, Process: etcd.Process{Client: a.conn.Client()},
			ReadKey: ownKey, Accusations: Accusations{Ranges: []string{"/g/accused/a/"}, Silence: "/g/accused-silent/a/",
				OnRefuted: func(keys []string) {
					a.mu.Lock()
					a.refuted = append(a.refuted, keys...)
					a.mu.Unlock()
				}}})
		require.NoError(t, err)
		a.Session = s
		s.ProtectKey(ownKey, a.put(ownKey), nil)
		defer func() {
			a.loseRequests(false)
			_ = s.Close(t.Context()) // some tests have lost it
		}()
		f(a)
	})
}

func (a *accused) loseRequests(lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = lost
}

// put writes a key, as another process does, and returns the revision.
func (a *accused) put(key string) int64 {
	resp, err := a.etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(key)}}}}})
	require.NoError(a.t, err)
	return resp.Header.Revision
}

func (a *accused) remove(key string) {
	_, err := a.etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}}})
	require.NoError(a.t, err)
}

// arm arms a watcher that acknowledges nothing.
func (a *accused) arm() {
	a.BeginProofs(deadline.ProofTimes{Acknowledged: 4 * time.Second, Read: 2 * time.Second})
	a.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
		return p.Arm(theWatcher, theArming, now)
	})
}

func (a *accused) acknowledge() {
	a.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
		return p.OnAcknowledged(theWatcher, now, now)
	})
}

// While acknowledgements are missing the session lives on reads, and asks etcd for nothing while they arrive.
func TestSessionReadsWhileAcknowledgementsAreMissing(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		pass(time.Second)
		before := a.txns
		a.arm()
		for range 20 {
			a.acknowledge()
			pass(500 * time.Millisecond)
		}
		require.LessOrEqual(t, a.txns-before, 1, "its usual round")
		period := a.Period()
		for range 200 {
			pass(200 * time.Millisecond)
			require.True(t, period.Valid())
		}
		require.Greater(t, a.txns-before, 20)
	})
}

// After a lapse a read begins the next period, however long renewals hang. After the loss of a watcher, too, a round is
// needed.
func TestReadEndsALapse(t *testing.T) {
	for name, watcherLost := range map[string]bool{"a lapse": false, "and a watcher was lost": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(a *accused) {
				a.arm()
				pass(5 * time.Second)
				a.loseRequests(true)
				pass(3 * time.Second)
				require.False(t, a.Valid())
				if watcherLost {
					a.Suspect(0, 0)
				}
				a.mu.Lock()
				a.lost, a.hang = false, true
				a.mu.Unlock()
				pass(time.Second)
				require.Equal(t, !watcherLost, a.Valid())
				pass(3 * time.Second)
				require.Equal(t, !watcherLost, a.Valid())
				a.mu.Lock()
				a.hang = false
				a.mu.Unlock()
				pass(accusedTTL / 5)
				require.True(t, a.Valid())
			})
		})
	}
}

// If etcd does not answer either, the session claims nothing after the time of a proof, and its period ends. It begins
// another one when etcd answers; the lease is the same.
func TestLapsedProofsEndThePeriod(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.arm()
		pass(5 * time.Second)
		period, lease := a.Period(), a.ID()
		a.loseRequests(true)
		pass(1200 * time.Millisecond)
		require.True(t, period.Valid(), "the last read counts for two seconds")
		pass(900 * time.Millisecond)
		require.False(t, period.Valid())
		require.False(t, a.Valid())
		require.Equal(t, session.ReasonUnconfirmed, session.ReasonOf(period.EndCause()))
		require.ErrorIs(t, period.EndCause(), errLapsed)
		a.acknowledge()
		pass(time.Second)
		require.False(t, a.Valid(), "only a read ends a lapse")
		a.loseRequests(false)
		pass(6 * time.Second)
		require.True(t, a.Valid())
		require.NotSame(t, period, a.Period())
		require.Equal(t, lease, a.ID())
		require.NoError(t, a.Err())
	})
}

// A read that shows an accusation proves nothing until the session has deleted all of them.
func TestAccusationsAreRefuted(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.put(accusation)
		a.put(ofSilence)
		pass(accusedTTL / 2)
		require.Equal(t, []string{accusation}, a.refuted, "no watcher was armed yet")
		a.arm()
		pass(3 * time.Second)
		require.Equal(t, []string{accusation, ofSilence}, a.refuted)
		require.Empty(t, a.etcd.Keys("/g/accused"))
		require.True(t, a.Valid())
	})
}

// A session whose node key is gone does not refute: it is lost.
func TestRemovedHolderDoesNotRefute(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.arm()
		pass(5 * time.Second)
		a.put(ofSilence)
		a.remove(ownKey)
		pass(time.Second)
		require.Equal(t, session.ReasonKeyLost, session.ReasonOf(a.Err()))
		require.False(t, a.Valid())
		require.Empty(t, a.refuted)
	})
}

// Another process may have a watcher that goes away: then the lease decides alone again.
func TestDroppedWatcherNeedsNoProof(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.arm()
		a.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs { return p.OnRelease(theArming, now) })
		a.loseRequests(true)
		pass(accusedTTL / 2)
		require.True(t, a.Valid())
	})
}

// A read proves nothing if it was prepared before the holder's key was created: it cannot show that the key is gone.
func TestReadWithoutTheNodeKeyProvesNothing(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.mu.Lock()
		a.Session.mu.Lock()
		a.protected = nil
		a.Session.mu.Unlock()
		a.mu.Unlock()
		a.arm()
		pass(5 * time.Second)
		require.False(t, a.Valid())
	})
}

// A read that waits while etcd elects its leader says nothing about the distance from etcd.
func TestRoundTripWithoutElections(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.arm()
		pass(5 * time.Second)
		trip := func() time.Duration { return a.RoundTrip().Took }
		near := trip()
		require.Less(t, near, 10*time.Millisecond)
		slow := func(d time.Duration) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.slow = d
		}
		slow(1500 * time.Millisecond)
		pass(time.Second) // a read is sent
		a.etcd.Elect(0)
		slow(0)
		for range 200 {
			pass(10 * time.Millisecond)
			require.Equal(t, near, trip())
		}
		slow(50 * time.Millisecond)
		pass(2 * time.Second)
		require.Equal(t, near+50*time.Millisecond, trip())
	})
}

// A caller that found the session invalid is told when a proof arrives, also if the session has noticed no lapse yet.
func TestProofThatComesAtOnceIsSignalled(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		a.BeginProofs(deadline.ProofTimes{Acknowledged: 4 * time.Second, Read: 2 * time.Second})
		changed := 0
		defer a.OnChange(func() { changed++ })()
		a.Session.mu.Lock() // the session cannot notice the lapse
		defer a.Session.mu.Unlock()
		now := a.cfg.Clock()
		p := a.proofs.Load().Arm(theWatcher, theArming, now.Add(-5*time.Second))
		a.proofs.Store(&p)
		require.False(t, a.Valid())
		a.setProofs(p.OnRead(now, now), now)
		require.True(t, a.Valid())
		require.Equal(t, 1, changed)
	})
}

// Another process may rely on the session for no longer than the present proofs hold.
func TestTimeLeftEndsWithTheProofs(t *testing.T) {
	inVirtualTime(t, func(a *accused) {
		require.Greater(t, a.TimeLeft(), accusedTTL/2)
		a.arm()
		require.Equal(t, 4*time.Second, a.TimeLeft())
		a.loseRequests(true)
		period := a.Period()
		pass(4*time.Second - time.Millisecond)
		require.NoError(t, period.Context().Err())
		require.False(t, a.Suspected())
		pass(time.Millisecond)
		synctest.Wait()
		require.Error(t, period.Context().Err(), "at once")
		require.Zero(t, a.TimeLeft())
		require.True(t, a.Suspected())
	})
}

package leasequeue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
)

// awaitGrant fails the test unless the entry is granted within d.
func (s *testBed) awaitGrant(x *Entry, d time.Duration) *Grant {
	s.Helper()
	select {
	case <-x.Decided():
	case <-time.After(d):
		s.Fatal("the entry is not first")
	}
	g, err := x.Outcome()
	require.NoError(s, err)
	return g
}

// etcd commits requests that were in flight when its space ran out, and answers as if it had not. The entries
// are granted all the same, although nothing can be written during the outage.
func TestCommittedWithoutSpace(t *testing.T) {
	play(t, func(s *testBed) {
		q := s.queues(well)
		s.awaitGrant(s.enter(q, EntrySpec{Name: "before"}), time.Second)
		s.e.SetNoSpace(true)
		x := s.enter(q, EntrySpec{Name: "it"})
		g := s.awaitGrant(x, 5*time.Second)
		stands := s.e.Keys(x.Key())
		require.Len(s, stands, 1)
		require.Equal(s, stands[0].CreateRevision, x.Token())
		lost, err := g.ReleaseAndWait(s.ctx)
		require.NoError(s, lost)
		require.NoError(s, err)
		require.Empty(s, s.e.Keys(x.Key()))
	})
}

// A batch in flight without an answer is resolved as well, by a read: no number can be put during the outage.
func TestSilenceWithoutSpace(t *testing.T) {
	play(t, func(s *testBed) {
		var batches atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			if r, ok := request.(*pb.TxnRequest); ok && len(r.Success) == 3 && batches.Add(1) == 1 {
				s.e.SetNoSpace(true)
				f.Unanswered = true
			}
			return f
		})
		s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), 10*time.Second)
	})
}

// Some errors of gRPC about exhausted resources come after the commit, for example for an answer that is too
// large for the client. They must not make an entry be put twice.
func TestAnswerThatIsTooLarge(t *testing.T) {
	play(t, func(s *testBed) {
		var batches atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			if _, ok := request.(*pb.TxnRequest); !ok {
				return f
			}
			switch n := batches.Add(1); {
			case n <= laneCount: // long enough for the next two to go together
				f.Out = time.Duration(n) * 100 * time.Millisecond
			case n == laneCount+1:
				f.Instead = status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
			}
			return f
		})
		s.occupy(q)
		for _, x := range []*Entry{s.enter(q, EntrySpec{Name: "one"}), s.enter(q, EntrySpec{Name: "two"})} {
			s.awaitGrant(x, 5*time.Second)
			stands := s.e.Keys(x.Key())
			require.Len(s, stands, 1)
			require.EqualValues(s, 1, stands[0].Version, "put once")
			require.Equal(s, stands[0].CreateRevision, x.Token())
		}
	})
}

// If no watch can be opened, queues without waiting entries are not read any more after a while.
func TestBucketWithoutAWatchRetires(t *testing.T) {
	play(t, func(s *testBed) {
		var reads atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			switch r := request.(type) {
			case *pb.WatchRequest:
				f.Lost = true
			case *pb.TxnRequest:
				if bytes.HasPrefix(r.Success[0].GetRequestRange().GetKey(), []byte(s.keys.Root())) {
					reads.Add(1)
				}
			}
			return f
		})
		first := s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), time.Second)
		second := s.enter(q, EntrySpec{Name: "it"})
		<-time.After(100 * time.Millisecond) // etcd has it, behind the first
		_, err := first.ReleaseAndWait(s.ctx)
		require.NoError(s, err)
		_, err = s.awaitGrant(second, 10*time.Second).ReleaseAndWait(s.ctx)
		require.NoError(s, err)
		<-time.After(time.Minute)
		before := reads.Load()
		require.NotZero(s, before)
		<-time.After(time.Minute)
		require.Equal(s, before, reads.Load())
	})
}

// refusing refuses watches below a prefix, and records the streams on which watches are opened.
type refusing struct {
	clientv3.Watcher
	prefix  string
	mu      sync.Mutex
	streams map[string]bool
}

func (r *refusing) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	r.mu.Lock()
	r.streams[strings.Join(md.Get("goverse-queues"), " ")] = true
	r.mu.Unlock()
	if !strings.HasPrefix(key, r.prefix) {
		return r.Watcher.Watch(ctx, key, opts...)
	}
	refused := make(chan clientv3.WatchResponse, 1)
	refused <- clientv3.WatchResponse{Created: true, Canceled: true}
	close(refused)
	return refused
}

// A watch that is refused with any token is not retried on new streams all the time.
func TestFewStreamsForADeniedBucket(t *testing.T) {
	play(t, func(s *testBed) {
		watcher := &refusing{prefix: s.keys.BucketPrefix("denied"), streams: map[string]bool{}}
		q := s.queues(well, func(c *etcdsession.Config) {
			watcher.Watcher, c.Client.Watcher = c.Client.Watcher, watcher
		})
		for _, name := range []string{"denied", "a", "b", "c"} {
			s.awaitGrant(s.enter(q, EntrySpec{Name: name}), time.Second)
			s.enter(q, EntrySpec{Name: name}) // it waits
		}
		<-time.After(10 * time.Minute)
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		require.Greater(s, len(watcher.streams), 1)
		require.Less(s, len(watcher.streams), 16)
	})
}

// An entry that waits in a readable queue is notified, even if other queues in its bucket are denied.
func TestWaitsBesideADeniedQueue(t *testing.T) {
	play(t, func(s *testBed) {
		other := ""
		for i := 0; other == "" || s.keys.BucketPrefix(other) != s.keys.BucketPrefix("it"); i++ {
			other = fmt.Sprint("other ", i)
		}
		var denied atomic.Bool
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			switch r := request.(type) {
			case *pb.WatchRequest:
				f.Lost = true // a watch would cover both queues
			case *pb.TxnRequest:
				if denied.Load() && schedule.Touches(r, s.keys.QueuePrefix(other)) {
					f.Refused = modeletcd.Denied
				}
			}
			return f
		})
		ours := s.awaitGrant(s.enter(q, EntrySpec{Name: "it"}), time.Second)
		s.awaitGrant(s.enter(q, EntrySpec{Name: other}), time.Second)
		next := s.enter(q, EntrySpec{Name: "it"})
		s.enter(q, EntrySpec{Name: other})
		<-time.After(time.Second)
		denied.Store(true)
		_, err := ours.ReleaseAndWait(s.ctx)
		require.NoError(s, err)
		s.awaitGrant(next, 10*time.Second)
	})
}

// A lost answer to many entries does not cost one request per entry.
func TestLostAnswerToMany(t *testing.T) {
	play(t, func(s *testBed) {
		const many = 60
		var batches, requests atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			requests.Add(1)
			f.Out, f.Back = 40*time.Millisecond, 40*time.Millisecond
			if r, ok := request.(*pb.TxnRequest); ok && len(r.Success) > 0 && r.Success[0].GetRequestPut() != nil {
				if n := batches.Add(1); n > laneCount && n <= 2*laneCount {
					f.Unanswered, f.Broken = true, 90*time.Millisecond
				}
			}
			return f
		})
		s.occupy(q)
		requests.Store(0)
		began := time.Now()
		var all []*Entry
		for i := range many {
			all = append(all, s.enter(q, EntrySpec{Name: fmt.Sprint("waits ", i)}),
				s.enter(q, EntrySpec{Name: fmt.Sprint("tries ", i), Try: true}))
		}
		for _, x := range all {
			s.awaitGrant(x, 10*time.Second)
		}
		require.Less(s, time.Since(began), 2*time.Second)
	})
}

// Many keys that are deleted out of band are found missing together.
func TestManyKeysAreDeleted(t *testing.T) {
	play(t, func(s *testBed) {
		const many = 300
		q := s.queues(func(any) (f modeletcd.Delivery) {
			f.Out, f.Back = 40*time.Millisecond, 40*time.Millisecond
			return f
		})
		var all []*Entry
		for i := range many {
			all = append(all, s.enter(q, EntrySpec{Name: fmt.Sprint(i)}))
		}
		for _, x := range all {
			s.awaitGrant(x, 10*time.Second)
		}
		began := time.Now()
		for _, x := range all {
			s.e.Delete(x.Key())
		}
		for _, x := range all {
			g, _ := x.Outcome()
			<-g.Context().Done()
			require.ErrorIs(s, context.Cause(g.Context()), ErrKeyLost)
		}
		require.Less(s, time.Since(began), 2*time.Second)
	})
}

// When etcd has no space left, one entry that may not be deleted does not hold up others.
func TestDeniedBesideOthersWithoutSpace(t *testing.T) {
	play(t, func(s *testBed) {
		var full atomic.Bool
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			r, ok := request.(*pb.TxnRequest)
			switch {
			case !ok || !full.Load():
			case len(r.Success) > 0 && r.Success[0].GetRequestPut() != nil:
				f.Refused = rpctypes.ErrGRPCNoSpace
			case deletes(r, s.keys.QueuePrefix("denied")):
				f.Refused = modeletcd.Denied
			}
			return f
		})
		denied := s.enter(q, EntrySpec{Name: "denied"})
		s.awaitGrant(denied, time.Second)
		var others []*Entry
		for i := range 20 {
			others = append(others, s.enter(q, EntrySpec{Name: fmt.Sprint(i)}))
			s.awaitGrant(others[i], time.Second)
		}
		full.Store(true)
		for i, x := range others {
			x.Release()
			if i == len(others)/2 { // the lanes are busy: it goes with others
				denied.Release()
			}
		}
		for _, x := range others {
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			require.NoError(s, x.AwaitDeletion(ctx))
			cancel()
		}
		require.Len(s, s.e.Keys(denied.Key()), 1)
		full.Store(false)
		<-time.After(2 * time.Second)
		require.Empty(s, s.e.Keys(denied.Key()), "it is tried again")
	})
}

// deletes reports whether a transaction may delete a key below a prefix.
func deletes(r *pb.TxnRequest, prefix string) bool {
	return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
		inner := op.GetRequestTxn()
		return bytes.HasPrefix(op.GetRequestDeleteRange().GetKey(), []byte(prefix)) || inner != nil && deletes(inner, prefix)
	})
}

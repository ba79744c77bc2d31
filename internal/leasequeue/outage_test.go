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

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// settles fails the test unless the entry is first within d.
func (s *testBed) settles(x *Entry, d time.Duration) {
	s.Helper()
	select {
	case <-x.Settled():
		require.NoError(s, x.Err())
	case <-time.After(d):
		s.Fatal("the entry is not first")
	}
}

// etcd carries out what was on its way when its space was used up, and answers as if it had not. Whose entry that
// made learns of it, though nothing can be written for as long as the outage lasts.
func TestCommittedWithoutSpace(t *testing.T) {
	play(t, func(s *testBed) {
		q := s.queues(well)
		s.settles(s.enter(q, Want{Name: "before"}), time.Second)
		s.e.SetNoSpace(true)
		x := s.enter(q, Want{Name: "it"})
		s.settles(x, 5*time.Second)
		stands := s.e.Keys(x.Key())
		require.Len(s, stands, 1)
		require.Equal(s, stands[0].CreateRevision, x.Token())
		lost, err := x.Leave(s.ctx)
		require.NoError(s, lost)
		require.NoError(s, err)
		require.Empty(s, s.e.Keys(x.Key()))
	})
}

// What was under way and not answered is resolved too, by reading: in an outage no number can be put over it.
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
		s.settles(s.enter(q, Want{Name: "it"}), 10*time.Second)
	})
}

// Some of what gRPC says of resources that are exhausted comes after the commit: of an answer that is too large for
// the client, say. No entry is put twice for it.
func TestAnswerThatIsTooLarge(t *testing.T) {
	play(t, func(s *testBed) {
		var batches atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			if _, ok := request.(*pb.TxnRequest); !ok {
				return f
			}
			switch n := batches.Add(1); {
			case n <= lanes: // so long that the next two go together
				f.Out = time.Duration(n) * 100 * time.Millisecond
			case n == lanes+1:
				f.Instead = status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
			}
			return f
		})
		s.occupy(q)
		for _, x := range []*Entry{s.enter(q, Want{Name: "one"}), s.enter(q, Want{Name: "two"})} {
			s.settles(x, 5*time.Second)
			stands := s.e.Keys(x.Key())
			require.Len(s, stands, 1)
			require.EqualValues(s, 1, stands[0].Version, "put once")
			require.Equal(s, stands[0].CreateRevision, x.Token())
		}
	})
}

// Where no watch opens, queues in which nobody waits any more are not read for good.
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
		first := s.enter(q, Want{Name: "it"})
		s.settles(first, time.Second)
		second := s.enter(q, Want{Name: "it"})
		<-time.After(100 * time.Millisecond) // etcd has it, behind the first
		_, err := first.Leave(s.ctx)
		require.NoError(s, err)
		s.settles(second, 10*time.Second)
		_, err = second.Leave(s.ctx)
		require.NoError(s, err)
		<-time.After(time.Minute)
		before := reads.Load()
		require.NotZero(s, before)
		<-time.After(time.Minute)
		require.Equal(s, before, reads.Load())
	})
}

// refusing refuses watches of what has a prefix, and notes on which streams watches are opened.
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

// A watch that is refused whatever the token is not tried with a new one all the time.
func TestFewStreamsForADeniedBucket(t *testing.T) {
	play(t, func(s *testBed) {
		watcher := &refusing{prefix: s.keys.Bucket("denied"), streams: map[string]bool{}}
		q := s.queues(well, func(client *clientv3.Client) { watcher.Watcher, client.Watcher = client.Watcher, watcher })
		for _, name := range []string{"denied", "a", "b", "c"} {
			s.settles(s.enter(q, Want{Name: name}), time.Second)
			s.enter(q, Want{Name: name}) // it waits
		}
		<-time.After(10 * time.Minute)
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		require.Greater(s, len(watcher.streams), 1)
		require.Less(s, len(watcher.streams), 16)
	})
}

// Who waits in a queue that may be read is notified, whatever other queues are denied.
func TestWaitsBesideADeniedQueue(t *testing.T) {
	play(t, func(s *testBed) {
		other := ""
		for i := 0; other == "" || s.keys.Bucket(other) != s.keys.Bucket("it"); i++ {
			other = fmt.Sprint("other ", i)
		}
		var denied atomic.Bool
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			switch r := request.(type) {
			case *pb.WatchRequest:
				f.Lost = true // it would be of both
			case *pb.TxnRequest:
				if denied.Load() && touches(r, s.keys.Queue(other)) {
					f.Refused = modeletcd.Denied
				}
			}
			return f
		})
		ours, theirs := s.enter(q, Want{Name: "it"}), s.enter(q, Want{Name: other})
		s.settles(ours, time.Second)
		s.settles(theirs, time.Second)
		next := s.enter(q, Want{Name: "it"})
		s.enter(q, Want{Name: other})
		<-time.After(time.Second)
		denied.Store(true)
		_, err := ours.Leave(s.ctx)
		require.NoError(s, err)
		s.settles(next, 10*time.Second)
	})
}

// An answer to many that was lost costs no request for each of them.
func TestLostAnswerToMany(t *testing.T) {
	play(t, func(s *testBed) {
		const many = 60
		var batches, requests atomic.Int64
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			requests.Add(1)
			f.Out, f.Back = 40*time.Millisecond, 40*time.Millisecond
			if r, ok := request.(*pb.TxnRequest); ok && len(r.Success) > 0 && r.Success[0].GetRequestPut() != nil {
				if n := batches.Add(1); n > lanes && n <= 2*lanes {
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
			all = append(all, s.enter(q, Want{Name: fmt.Sprint("waits ", i)}),
				s.enter(q, Want{Name: fmt.Sprint("tries ", i), Try: true}))
		}
		for _, x := range all {
			s.settles(x, 10*time.Second)
		}
		require.Less(s, time.Since(began), 2*time.Second)
	})
}

// Many keys that others delete are missed together.
func TestManyKeysAreDeleted(t *testing.T) {
	play(t, func(s *testBed) {
		const many = 300
		q := s.queues(func(any) (f modeletcd.Delivery) {
			f.Out, f.Back = 40*time.Millisecond, 40*time.Millisecond
			return f
		})
		var all []*Entry
		for i := range many {
			all = append(all, s.enter(q, Want{Name: fmt.Sprint(i)}))
		}
		for _, x := range all {
			s.settles(x, 10*time.Second)
		}
		began := time.Now()
		for _, x := range all {
			s.e.Delete(x.Key())
		}
		for _, x := range all {
			<-x.Context().Done()
			require.ErrorIs(s, context.Cause(x.Context()), ErrKeyGone)
		}
		require.Less(s, time.Since(began), 2*time.Second)
	})
}

// Where there is no space left, one place that may not be given up holds up no others.
func TestDeniedBesideOthersWithoutSpace(t *testing.T) {
	play(t, func(s *testBed) {
		var full atomic.Bool
		q := s.queues(func(request any) (f modeletcd.Delivery) {
			r, ok := request.(*pb.TxnRequest)
			switch {
			case !ok || !full.Load():
			case len(r.Success) > 0 && r.Success[0].GetRequestPut() != nil:
				f.Refused = rpctypes.ErrGRPCNoSpace
			case deletes(r, s.keys.Queue("denied")):
				f.Refused = modeletcd.Denied
			}
			return f
		})
		denied := s.enter(q, Want{Name: "denied"})
		s.settles(denied, time.Second)
		var others []*Entry
		for i := range 20 {
			others = append(others, s.enter(q, Want{Name: fmt.Sprint(i)}))
			s.settles(others[i], time.Second)
		}
		full.Store(true)
		for i, x := range others {
			x.Abandon()
			if i == len(others)/2 { // the lanes are busy: it goes with others
				denied.Abandon()
			}
		}
		for _, x := range others {
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			require.NoError(s, x.Gone(ctx))
			cancel()
		}
		require.Len(s, s.e.Keys(denied.Key()), 1)
		full.Store(false)
		<-time.After(2 * time.Second)
		require.Empty(s, s.e.Keys(denied.Key()), "it is tried again")
	})
}

// deletes reports whether a transaction may delete what has a prefix.
func deletes(r *pb.TxnRequest, prefix string) bool {
	return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
		inner := op.GetRequestTxn()
		return bytes.HasPrefix(op.GetRequestDeleteRange().GetKey(), []byte(prefix)) || inner != nil && deletes(inner, prefix)
	})
}

package renewal

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestOneStreamForAllOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: yes}
		r := s.renewer(t)
		var wg sync.WaitGroup
		for id := range 50 {
			wg.Go(func() {
				for range 3 {
					resp, err := r.Renew(within(t, time.Second), clientv3.LeaseID(id+1))
					require.NoError(t, err)
					require.EqualValues(t, id+1, resp.ID)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, s.opened())
	})
}

func TestSessionsOfAClientShareItsRenewer(t *testing.T) {
	client := clientv3.NewCtxClient(context.Background())
	client.Lease = &scripted{answer: yes}
	a, endA := Acquire(client)
	b, endB := Acquire(client)
	require.Same(t, a, b)
	endA()
	require.NoError(t, b.ctx.Err(), "one still uses it")
	endB()
	require.Error(t, b.ctx.Err())
	c, endC := Acquire(client)
	defer endC()
	require.NotSame(t, a, c)
}

// etcd answers the requests of a stream in order, so a refusal concerns the first one that waits. The others
// are sent again.
func TestRefusalIsOfTheFirstThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			<-hold
			if id == 2 {
				return nil, rpctypes.ErrGRPCPermissionDenied
			}
			return yes(stream, request, id)
		}}
		r := s.renewer(t)
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for id := 1; id < 5; id++ {
			wg.Go(func() { _, errs[id] = r.Renew(within(t, time.Minute), clientv3.LeaseID(id)) })
			synctest.Wait()
		}
		close(hold)
		wg.Wait()
		require.NoError(t, errs[1])
		require.ErrorIs(t, errs[2], rpctypes.ErrPermissionDenied)
		require.NoError(t, errs[3])
		require.NoError(t, errs[4])
	})
}

// A stream that stood for a while may have ended since, with its member or with its token.
func TestStandingStreamThatEndedIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			if request == 3 {
				return nil, rpctypes.ErrGRPCInvalidAuthToken
			}
			return yes(stream, request, id)
		}}
		r := s.renewer(t)
		for range 9 {
			_, err := r.Renew(within(t, time.Second), 1)
			require.NoError(t, err)
		}
		require.Equal(t, 5, s.opened())

		refused := &scripted{answer: func(int, int, int64) (*pb.LeaseKeepAliveResponse, error) {
			return nil, rpctypes.ErrGRPCNoLeader
		}}
		_, err := refused.renewer(t).Renew(within(t, time.Second), 1)
		require.ErrorIs(t, err, rpctypes.ErrNoLeader)
		require.Equal(t, 1, refused.opened(), "a fresh stream that is refused is not tried again")
	})
}

func TestUnknownLeaseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(_, _ int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			return &pb.LeaseKeepAliveResponse{ID: id}, nil
		}}
		_, err := s.renewer(t).Renew(within(t, time.Second), 1)
		require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
	})
}

func TestStreamThatStallsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			if stream == 1 && request == 2 {
				return nil, nil
			}
			return yes(stream, request, id)
		}}
		r := s.renewer(t)
		_, err := r.Renew(within(t, time.Second), 1)
		require.NoError(t, err)
		_, err = r.Renew(within(t, time.Second), 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 3 {
			_, err = r.Renew(within(t, time.Second), 1)
			require.NoError(t, err)
		}
		require.Equal(t, 2, s.opened())
	})
}

// A canceled caller proves nothing about the stream, and its late answer is delivered to no other caller.
func TestStreamOutlivesACallerThatIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			<-time.After(time.Second)
			resp, err := yes(stream, request, id)
			resp.TTL = int64(request)
			return resp, err
		}}
		r := s.renewer(t)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second/2, cancel)
		_, err := r.Renew(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
		resp, err := r.Renew(within(t, time.Minute), 1)
		require.NoError(t, err)
		require.EqualValues(t, 2, resp.TTL, "the answer to the second request")
		require.Equal(t, 1, s.opened())
	})
}

// etcd grpc-proxy behaves like this: it answers a fresh stream soon and a standing one at times of its own.
func TestWhereStandingStreamsStallEachRenewalGetsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			if request > 1 {
				return nil, nil
			}
			return yes(stream, request, id)
		}}
		r := s.renewer(t)
		failed := 0
		for range 2*maxStalls + singleRenewals {
			if _, err := r.Renew(within(t, time.Second), 1); err != nil {
				failed++
			}
		}
		require.Equal(t, maxStalls, failed)
	})
}

// Sessions in step wait for one stream: if it stalls, that counts once.
func TestOneStreamThatStallsCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			if stream == 1 && request > 1 {
				return nil, nil
			}
			return yes(stream, request, id)
		}}
		r := s.renewer(t)
		_, err := r.Renew(within(t, time.Second), 1)
		require.NoError(t, err)
		ctx := within(t, time.Second)
		var wg sync.WaitGroup
		for id := range 10 {
			wg.Go(func() { _, _ = r.Renew(ctx, clientv3.LeaseID(id+1)) })
		}
		wg.Wait()
		for range 20 {
			_, err := r.Renew(within(t, time.Second), 1)
			require.NoError(t, err)
		}
		require.Less(t, s.opened(), 5, "one stands again")
	})
}

// A slow log-in is awaited by one caller after the other, and not begun anew.
func TestSlowOpeningIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: yes, open: func(ctx context.Context, _ int) error {
			select {
			case <-time.After(5 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		r := s.renewer(t)
		began := time.Now()
		for {
			_, err := r.Renew(within(t, 2*time.Second), 1)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Equal(t, 1, s.opened())
	})
}

// Each opening takes a little longer than its caller waits, so that a later caller's request is sent shortly before
// its deadline. The stream proves nothing by not answering that one, and answers the next.
func TestStreamIsKeptAfterARequestThatWasSentLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error) {
			<-time.After(time.Second / 5)
			return yes(stream, request, id)
		}, open: func(ctx context.Context, _ int) error {
			select {
			case <-time.After(3900 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		r := s.renewer(t)
		for range 2 {
			_, err := r.Renew(within(t, 2*time.Second), 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		_, err := r.Renew(within(t, 2*time.Second), 1)
		require.NoError(t, err)
		require.Equal(t, 1, s.opened())
	})
}

// A stream that does not answer at all is abandoned as soon as a request has had its time, and does not count as one
// that stalled after it had answered.
func TestStreamThatNeverAnswersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(int, int, int64) (*pb.LeaseKeepAliveResponse, error) { return nil, nil },
			open: func(context.Context, int) error { <-time.After(time.Second); return nil }}
		r := s.renewer(t)
		for n := range 2 * maxStalls {
			_, err := r.Renew(within(t, 2*time.Second), 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 1+n/2, s.opened(), "the second request on each was sent at once")
		}
		require.Zero(t, r.singlesLeft)
	})
}

// With several endpoints, an opening that hangs is not the only one that callers wait for. The client may be given
// the others later.
func TestOpeningThatHangsIsJoinedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: yes, open: func(ctx context.Context, n int) error {
			if n%3 != 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"a:1"}, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		r := s.renewerOf(t, client)
		client.SetEndpoints("a:1", "b:1")
		began := time.Now()
		for {
			_, err := r.Renew(within(t, 2*time.Second), 1)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(began), 10*time.Second)
		}
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, 3, s.opened())
	})
}

func TestReleaseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(int, int, int64) (*pb.LeaseKeepAliveResponse, error) { return nil, nil }}
		client := clientv3.NewCtxClient(context.Background())
		client.Lease = s
		r, release := Acquire(client)
		failed := make(chan error)
		go func() {
			_, err := r.Renew(context.Background(), 1)
			failed <- err
		}()
		synctest.Wait()
		release()
		require.True(t, errors.Is(<-failed, context.Canceled))
		_, err := r.Renew(context.Background(), 1)
		require.Error(t, err)
	})
}

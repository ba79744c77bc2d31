package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// slowLeases is an etcd that is slow to return a lease's TTL, or fails.
type slowLeases struct {
	clientv3.Lease
	asked atomic.Int64
	err   error
}

func (s *slowLeases) TimeToLive(ctx context.Context, _ clientv3.LeaseID, _ ...clientv3.LeaseOption) (
	*clientv3.LeaseTimeToLiveResponse, error) {
	s.asked.Add(1)
	if !wait.For(ctx, 100*time.Millisecond) {
		return nil, ctx.Err()
	}
	return &clientv3.LeaseTimeToLiveResponse{TTL: 8, GrantedTTL: 10}, s.err
}

// Any number of callers, concurrent or not, waiting or gone, cost etcd one read of the leader's lease a second.
func TestLeadersLeaseIsAskedForOnceASecond(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"etcd answers": nil, "etcd fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				etcd := &slowLeases{err: failure}
				client := &clientv3.Client{Lease: etcd}
				var l leaderTimes
				var wg sync.WaitGroup
				start := func(ask func(context.Context)) bool {
					wg.Go(func() { ask(context.Background()) })
					return true
				}
				for range 100 { // in ten seconds
					for i := range 5 {
						wg.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*50)*time.Millisecond)
							defer cancel()
							_, expires, err := l.leaseTimes(ctx, client, 1, start)
							if !errors.Is(err, context.DeadlineExceeded) {
								assert.ErrorIs(t, err, failure)
								assert.Equal(t, failure == nil, !expires.IsZero())
							}
						})
					}
					<-time.After(100 * time.Millisecond) // of virtual time
				}
				wg.Wait()
				require.LessOrEqual(t, etcd.asked.Load(), int64(11))
				require.GreaterOrEqual(t, etcd.asked.Load(), int64(8))
			})
		})
	}
}

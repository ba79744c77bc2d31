package watchcache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
)

const tooMany = 5000

// broken is an etcd in which a part fails each time.
type broken struct {
	clientv3.KV
	clientv3.Watcher
	get func(*Mirror) error                                        // nil: it works
	tap func(ctx context.Context, out chan clientv3.WatchResponse) // after the opening; nil: none

	m       *Mirror
	reads   []time.Time
	watches int
}

func (b *broken) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if b.reads = append(b.reads, time.Now()); len(b.reads) > tooMany {
		<-ctx.Done() // otherwise requests would take no time at all, forever
	}
	if err := b.get(b.m); err != nil {
		return nil, err
	}
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{ClusterId: 1, Revision: 1, RaftTerm: 1}}, nil
}

func (b *broken) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	b.watches++
	out := make(chan clientv3.WatchResponse, 1)
	if b.tap == nil { // etcd's client gives no reason either
		<-ctx.Done()
		close(out)
		return out
	}
	out <- clientv3.WatchResponse{Created: true, Header: &pb.ResponseHeader{ClusterId: 1, Revision: 1, RaftTerm: 1}}
	go b.tap(ctx, out)
	return out
}

func (*broken) RequestProgress(context.Context) error { return nil }

// Whatever fails, even each time, the cluster is never read again immediately, and not often.
func TestEachReadAgainIsAfterAPause(t *testing.T) {
	works := func(*Mirror) error { return nil }
	stands := func(ctx context.Context, out chan clientv3.WatchResponse) { <-ctx.Done(); close(out) }
	const lasts = 10 * time.Minute
	for name, b := range map[string]*broken{
		"the read fails":          {get: func(*Mirror) error { return errors.New("etcd does not answer") }},
		"the watch is not opened": {get: works},
		"the watch breaks":        {get: works, tap: func(_ context.Context, out chan clientv3.WatchResponse) { close(out) }},
		"the watch is of another etcd": {get: works, tap: func(ctx context.Context, out chan clientv3.WatchResponse) {
			select {
			case out <- clientv3.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 2, Revision: 1}}:
			case <-ctx.Done():
			}
			close(out)
		}},
		"the watch is compacted": {get: works, tap: func(ctx context.Context, out chan clientv3.WatchResponse) {
			select {
			case out <- clientv3.WatchResponse{CompactRevision: 5, Canceled: true}:
			case <-ctx.Done():
			}
			close(out)
		}},
		"it is asked for all the time": {tap: stands, get: func(m *Mirror) error {
			m.Rebuild("somebody asks")
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				client := clientv3.NewCtxClient(ctx)
				client.KV, client.Watcher = b, b
				m := New(Config{Process: etcd.Process{Client: client, Keys: testKeys(t)}})
				b.m = m
				require.ErrorIs(t, m.Run(ctx), context.DeadlineExceeded)
				synctest.Wait()

				reads := len(b.reads)
				require.Greater(t, reads, 50, "it goes on trying")
				for i := 1; i < reads; i++ {
					require.GreaterOrEqual(t, b.reads[i].Sub(b.reads[i-1]), 16*time.Millisecond, "read %d", i)
				}
				least := m.cfg.LagTimeout * 4 / 5
				if b.watches == 0 {
					least = 600 * time.Millisecond // watchprogress.ReadRetry
				}
				require.LessOrEqual(t, reads, 10+int(lasts/least))
				require.LessOrEqual(t, b.watches, 4*reads)
			})
		})
	}
}

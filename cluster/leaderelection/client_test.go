package leaderelection

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// counting counts the requests, and those that an etcd member cut off from the others would keep waiting
// instead of refusing.
type counting struct {
	clientv3.KV
	sent, patient *atomic.Int64
}

func (c counting) note(ctx context.Context) {
	c.sent.Add(1)
	if md, _ := metadata.FromOutgoingContext(ctx); len(md[rpctypes.MetadataRequireLeaderKey]) == 0 {
		c.patient.Add(1)
	}
}

func (c counting) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.note(ctx)
	return c.KV.Get(ctx, key, opts...)
}

func (c counting) Txn(ctx context.Context) clientv3.Txn {
	c.note(ctx)
	return c.KV.Txn(ctx)
}

func TestRequestsAreRefusedWithoutALeader(t *testing.T) {
	client := etcdtest.Client(t)
	kv := counting{client.KV, new(atomic.Int64), new(atomic.Int64)}
	client.KV = kv
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	b := start(t, client, "b:1")
	require.NoError(t, a.Resign(etcdtest.Context(t)))
	awaitLeads(t, b)
	require.NoError(t, b.Stop(etcdtest.Context(t)))
	awaitLeads(t, a)
	require.Greater(t, kv.sent.Load(), int64(5))
	require.Zero(t, kv.patient.Load(), "of %d requests", kv.sent.Load())
}

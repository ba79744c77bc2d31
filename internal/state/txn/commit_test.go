package txn

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// cutOff is an etcd member that knows of no leader. It refuses requests that require one, and lets others wait.
type cutOff struct{ clientv3.KV }

func (cutOff) Txn(ctx context.Context) clientv3.Txn { return cutOffTxn{ctx: ctx} }

type cutOffTxn struct {
	clientv3.Txn
	ctx context.Context
}

func (t cutOffTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t cutOffTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t cutOffTxn) Else(...clientv3.Op) clientv3.Txn { return t }

func (t cutOffTxn) Commit() (*clientv3.TxnResponse, error) {
	if md, _ := metadata.FromOutgoingContext(t.ctx); len(md[rpctypes.MetadataRequireLeaderKey]) == 1 {
		return nil, rpctypes.ErrNoLeader
	}
	<-t.ctx.Done()
	return nil, t.ctx.Err()
}

func TestChangeIsRefusedWithoutALeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := Commit(ctx, cutOff{}, Txn{})
	require.ErrorIs(t, err, rpctypes.ErrNoLeader)
}

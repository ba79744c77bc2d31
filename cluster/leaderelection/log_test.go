package leaderelection

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// logged returns an option that sets a logger, and a function that returns the log.
func logged() (func(*MemberConfig), func() string) {
	var mu sync.Mutex
	var buf bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &buf, Mutex: &mu})
	return func(c *MemberConfig) { c.Logger = logger }, func() string {
		mu.Lock()
		defer mu.Unlock()
		return buf.String()
	}
}

func TestALostKeyIsAWarning(t *testing.T) {
	client := etcdtest.Client(t)
	with, text := logged()
	a := start(t, client, "a:1", with)
	term := awaitLeads(t, a)
	own := new(state.QueuePlace).Find(a.mirror.Snapshot(), term.Token())
	_, err := client.Delete(etcdtest.Context(t), own.Key)
	require.NoError(t, err)
	<-term.Context().Done()
	require.NoError(t, a.waitUntil(etcdtest.Context(t), func() bool { return a.lastEnd != nil }))
	require.Regexp(t, `\[WARN\] +this node no longer leads: .*reason="candidate key lost"`, text())
}

// deniedKV denies every write.
type deniedKV struct{ clientv3.KV }

func (kv deniedKV) Txn(ctx context.Context) clientv3.Txn { return &deniedTxn{Txn: kv.KV.Txn(ctx)} }

type deniedTxn struct {
	clientv3.Txn
	writes bool
}

func (x *deniedTxn) If(cs ...clientv3.Cmp) clientv3.Txn { x.Txn = x.Txn.If(cs...); return x }

func (x *deniedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		x.writes = x.writes || !op.IsGet()
	}
	x.Txn = x.Txn.Then(ops...)
	return x
}

func (x *deniedTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(ops...); return x }

func (x *deniedTxn) Commit() (*clientv3.TxnResponse, error) {
	if x.writes {
		return nil, rpctypes.ErrPermissionDenied
	}
	return x.Txn.Commit()
}

func TestADeniedCandidacyNamesTheRemedy(t *testing.T) {
	client := etcdtest.Client(t)
	denied := clientv3.NewCtxClient(context.Background())
	denied.KV, denied.Lease, denied.Watcher = deniedKV{client.KV}, client.Lease, client.Watcher
	for _, fallback := range []bool{true, false} {
		with, text := logged()
		a := start(t, denied, "a:1", with, func(c *MemberConfig) { c.Fallback = fallback })
		require.ErrorIs(t, a.Failed(), rpctypes.ErrPermissionDenied)
		require.Contains(t, text(), "[ERROR] etcd denies this node's candidacy: grant WRITE on /goverse/leader/; ")
		require.Equal(t, fallback, bytes.Contains([]byte(text()), []byte("goes by name")))
	}
}

func TestRequested(t *testing.T) {
	require.EqualError(t, requestError(&state.Request{RequestRecord: state.RequestRecord{Kind: state.RequestResign}}),
		"resign requested")
	require.EqualError(t, requestError(&state.Request{RequestRecord: state.RequestRecord{Kind: state.RequestTransfer,
		Target: "b:1"}}),
		"transfer to b:1 requested")
}

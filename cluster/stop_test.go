package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

func TestStopCutShort(t *testing.T) {
	etcd := etcdtest.Start(t)
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := NewClusterWithNode(Config{EtcdAddress: etcd.Endpoint(), LeaderElectionTTL: ttl}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(etcdtest.Context(t)))
	awaitLeader(t, c, c.address())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err = c.Stop(ended)
	var cut *CutShortError
	require.ErrorAs(t, err, &cut)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "\n")
	// etcd may have the mark by the time that its step looks for it; the next step needs the deletion of a key.
	require.Regexp(t, `^the stop was cut short \(context canceled\): (mark stopping|leave the election)`, err.Error())
	require.Equal(t, 1, strings.Count(err.Error(), "context canceled"), "%v", err)
	require.NoError(t, cut.Left)
	require.Empty(t, keysLeft(t, etcd), "revoked at once")
	for range 20 {
		require.Equal(t, err, c.Stop(ended), "it is down, whatever time there is")
	}
}

func TestStopWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := NewClusterWithNode(Config{EtcdAddress: etcd.Endpoint(), LeaderElectionTTL: 10,
		RequestTimeout: 100 * time.Millisecond}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(etcdtest.Context(t)))
	awaitLeader(t, c, c.address())
	where := etcd.Endpoint()
	require.NoError(t, etcd.Close())
	err = c.Stop(etcdtest.Context(t))
	var cut *CutShortError
	require.ErrorAs(t, err, &cut)
	require.EqualError(t, err, "etcd at "+where+" did not answer: this node's keys stay there until its lease ends (10s)")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Functions that ignore the end of their terms' contexts are reported.
func TestStopWhileWorkGoesOn(t *testing.T) {
	t.Parallel()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := NewClusterWithNode(Config{EtcdAddress: etcdtest.Start(t).Endpoint(), LeaderElectionTTL: ttl,
		WorkTimeout: 50 * time.Millisecond}, n)
	require.NoError(t, err)
	ctx := etcdtest.Context(t)
	require.NoError(t, c.Start(ctx))
	named, err := c.Elections().Stand("job")
	require.NoError(t, err)
	inside, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error)
	work := func(context.Context, leaderelection.Term) error { inside <- struct{}{}; <-goOn; return nil }
	go func() { returned <- c.Lead(ctx, work) }()
	go func() { returned <- named.Lead(ctx, work) }()
	<-inside
	<-inside
	err = c.Stop(ctx)
	require.ErrorIs(t, err, leaderelection.ErrWorkRuns)
	require.ErrorContains(t, err, "leave the election")
	require.ErrorContains(t, err, "end the work of named elections")
	close(goOn)
	require.NoError(t, <-returned)
	require.NoError(t, <-returned)
}

// The deletion of this node's candidate key gets no answer, as while etcd elects a leader. The end of the session
// deletes the key anyway. Nothing of the node is left, and no step of the stop was cut short.
func TestStopWhileTheElectionIsSlow(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	client := etcd.Client()
	unanswered := clientv3.NewCtxClient(context.Background())
	unanswered.KV, unanswered.Lease, unanswered.Watcher = deletionsUnanswered{client.KV}, client.Lease, client.Watcher
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := NewClusterWithNode(Config{Client: unanswered, LeaderElectionTTL: 10,
		RequestTimeout: 100 * time.Millisecond}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(etcdtest.Context(t)))
	awaitLeader(t, c, c.address())
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	require.Empty(t, keysLeft(t, etcd))
}

// deletionsUnanswered is an etcd that does not answer transactions with deletions.
type deletionsUnanswered struct{ clientv3.KV }

func (kv deletionsUnanswered) Txn(ctx context.Context) clientv3.Txn {
	return &unansweredTxn{Txn: kv.KV.Txn(ctx), ctx: ctx}
}

type unansweredTxn struct {
	clientv3.Txn
	ctx     context.Context
	deletes bool
}

func (x *unansweredTxn) If(cs ...clientv3.Cmp) clientv3.Txn { x.Txn = x.Txn.If(cs...); return x }
func (x *unansweredTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	x.deletes = slices.ContainsFunc(ops, clientv3.Op.IsDelete)
	x.Txn = x.Txn.Then(ops...)
	return x
}

func (x *unansweredTxn) Commit() (*clientv3.TxnResponse, error) {
	if x.deletes {
		<-x.ctx.Done()
		return nil, x.ctx.Err()
	}
	return x.Txn.Commit()
}

func TestCutShortErrorSaysEachReasonOnce(t *testing.T) {
	cause := errors.New("it was asked to stop at once")
	calls := &member.StepError{Step: "stop serving",
		Err: fmt.Errorf("node: %w: give Stop more time (%w)", node.ErrCallsCut, cause)}
	mark := &member.StepError{Step: "mark stopping", Err: cause}
	leave := &member.StepError{Step: "leave the election", Err: context.DeadlineExceeded}
	e := &CutShortError{Steps: []error{mark, leave, calls}, Cause: cause}
	require.EqualError(t, e, "the stop was cut short (it was asked to stop at once): mark stopping; leave the "+
		"election; stop serving: running calls were cut off")
	require.ErrorIs(t, e, node.ErrCallsCut)
	e.Left, e.TTL = context.DeadlineExceeded, 3*time.Second
	require.EqualError(t, e, "etcd did not answer: this node's keys stay there until its lease ends (3s); "+
		"the stop was cut short (it was asked to stop at once): stop serving: running calls were cut off")
	refused := &CutShortError{Left: rpctypes.ErrPermissionDenied, Etcd: "a:1", TTL: time.Second}
	require.EqualError(t, refused, "etcd at a:1 refused to revoke the lease: this node's keys stay there until its "+
		"lease ends (1s)")
	require.ErrorIs(t, refused, rpctypes.ErrPermissionDenied)
	require.EqualError(t, &CutShortError{Steps: []error{leave}},
		"the stop was cut short: leave the election: context deadline exceeded")
}

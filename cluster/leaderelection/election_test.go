package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestConfigIsChecked(t *testing.T) {
	client, m, k := clientv3.NewCtxClient(context.Background()), &watchcache.Mirror{}, &etcdsession.Keeper{}
	whole := etcd.Process{Client: client, Keys: keysOf(t, "/goverse"), Address: "a"}
	require.NoError(t, MemberConfig{Process: whole, Mirror: m, Keeper: k}.Validate())
	noClient, noKeys, noAddress := whole, whole, whole
	noClient.Client, noKeys.Keys, noAddress.Address = nil, state.Keys{}, ""
	for _, cfg := range []MemberConfig{{}, {Process: noClient, Mirror: m, Keeper: k},
		{Process: noKeys, Mirror: m, Keeper: k},
		{Process: noAddress, Mirror: m, Keeper: k}, {Process: whole, Mirror: m}, {Process: whole, Keeper: k}} {
		_, _, err := NewForMember(cfg)
		require.Error(t, err)
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	client := etcdtest.Client(t)
	a := start(t, client, "a:1")
	first := awaitLeads(t, a)
	b, c := start(t, client, "b:1"), start(t, client, "c:1")
	require.True(t, a.IsLeader(), "a node that joins never takes leadership away")
	l, err := c.WaitForLeader(etcdtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, "a:1", l.Address)
	require.Equal(t, first.Token(), l.Token)

	require.NoError(t, a.Resign(etcdtest.Context(t)))
	require.False(t, a.IsLeader())
	second := awaitLeads(t, b)
	require.Greater(t, second.Token(), first.Token())
	require.ErrorIs(t, context.Cause(first.Context()), ErrTermOver)
	require.Equal(t, ReasonResigned, a.LastEnd().Reason)
	require.ErrorIs(t, a.Resign(etcdtest.Context(t)), ErrNotLeader)

	// a queues again at the tail, so c is next.
	awaitTail(t, a, "a:1")
	require.NoError(t, b.Resign(etcdtest.Context(t)))
	awaitLeads(t, c)
	awaitTail(t, b, "b:1")
	require.NoError(t, c.Stop(etcdtest.Context(t)))
	awaitLeads(t, a)
}

func TestObserverOnlyLooks(t *testing.T) {
	client := etcdtest.Client(t)
	o := start(t, client, "o:1", func(c *MemberConfig) { c.Observer = true })
	require.Equal(t, Leader{}, o.Leader())
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	l, err := o.WaitForLeader(etcdtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, "a:1", l.Address)
	require.Len(t, o.mirror.Snapshot().Queue, 1)
}

// A leader that is alone resigns and leads again with a new token.
func TestResignAlone(t *testing.T) {
	a := start(t, etcdtest.Client(t), "a:1")
	before := awaitLeads(t, a).Token()
	require.NoError(t, a.Resign(etcdtest.Context(t)))
	require.Greater(t, awaitLeads(t, a).Token(), before)
}

// A program that uses the recipe queues behind our nodes, leads in its turn, and is shown by all. No node
// claims leadership beside it.
func TestOutsideCandidate(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a, b := start(t, client, "a:1"), start(t, client, "b:1")
	awaitLeads(t, a)
	s, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	require.NoError(t, err)
	outside := concurrency.NewElection(s, "/goverse/leader")
	resp, err := outside.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "a:1", string(resp.Kvs[0].Value))
	won := make(chan error, 1)
	go func() { won <- outside.Campaign(ctx, "outside") }()
	awaitTail(t, a, "outside")

	require.NoError(t, a.Resign(ctx))
	awaitLeads(t, b)
	awaitTail(t, a, "a:1") // otherwise b might queue again before a does
	require.NoError(t, b.Resign(ctx))
	require.NoError(t, <-won)
	for _, le := range []*one{a, b} {
		awaitLeader(t, le, "outside")
		require.False(t, le.IsLeader())
		require.False(t, le.Leader().Member)
	}
	require.NoError(t, outside.Resign(ctx))
	awaitLeads(t, a)
	require.NoError(t, s.Close())
}

func TestTxnIsFenced(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1")
	term := awaitLeads(t, a)
	resp, err := term.Txn(ctx).Then(clientv3.OpPut("/x", "1")).Commit()
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	require.Len(t, resp.Responses, 1)
	resp, err = term.Txn(ctx).If(clientv3.Compare(clientv3.Value("/x"), "=", "other")).
		Then(clientv3.OpPut("/x", "2")).Else(clientv3.OpGet("/x")).Commit()
	require.NoError(t, err, "the caller's own comparison is no lost term")
	require.False(t, resp.Succeeded)
	require.Equal(t, "1", string(resp.Responses[0].GetResponseRange().Kvs[0].Value))

	// The term is over in etcd and this process has not noticed, as after a pause between Valid and the write.
	late := *term
	le := &LeaderElection{cfg: a.cfg, keys: a.keys}
	late.le, late.scope = le, termscope.New(termscope.Owner{}, termscope.EndOf(term.Context()), termscope.EndOf(ctx))
	le.term.Store(&late)
	require.NoError(t, a.Resign(ctx))
	require.True(t, late.Valid())
	_, err = late.Txn(ctx).Then(clientv3.OpPut("/x", "stale")).Commit()
	require.ErrorIs(t, err, ErrTermOver, "etcd refuses the token")
	require.Equal(t, ReasonResigned, ReasonOf(err))
	_, err = term.Txn(ctx).Then(clientv3.OpPut("/x", "stale")).Commit()
	require.ErrorIs(t, err, ErrTermOver, "refused here already")
	require.EqualError(t, err, fmt.Sprintf("token %d: the term is over: resigned", term.Token()))
	get, err := client.Get(ctx, "/x")
	require.NoError(t, err)
	require.Equal(t, "1", string(get.Kvs[0].Value))
}

// The flag goes down and the context ends before etcd is notified. The next node leads only when the work has
// returned.
func TestLeadIsAScope(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	b := start(t, client, "b:1")
	inside, finish := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- a.Lead(ctx, func(ctx context.Context, term Term) error {
			close(inside)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrTermOver) {
				return errors.New("the cause is missing")
			}
			<-finish
			return ctx.Err()
		})
	}()
	<-inside
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(ctx) }()
	require.NoError(t, a.waitUntil(ctx, func() bool { return !a.IsLeader() }))
	// b sees all changes in etcd in order: a key written now, after the resignation, arrives while a's
	// candidacy still stands.
	_, err := client.Put(ctx, "/goverse/nodes/mark", "{}")
	require.NoError(t, err)
	snap, err := b.mirror.Wait(ctx, func(s *state.Snapshot) bool { return s.Member("mark") != nil })
	require.NoError(t, err)
	require.Equal(t, "a:1", snap.Queue[0].Address)
	require.False(t, b.IsLeader())
	close(finish)
	require.NoError(t, <-resigned)
	err = <-result
	require.ErrorIs(t, err, ErrTermOver)
	require.Equal(t, 1, strings.Count(err.Error(), "token"), err)
	awaitLeads(t, b)
}

// A process that continues after its deadline has lost its session, even if nothing else has noticed.
func TestReasonOfATermThatEndedDuringAPause(t *testing.T) {
	term := awaitLeads(t, start(t, etcdtest.Client(t), "a:1"))
	require.Equal(t, ReasonSessionLost, ReasonOf(term.scope.OverError(session.ErrLost)))
	require.Equal(t, ReasonKeyLost, ReasonOf(term.scope.OverError(ErrKeyLost)))
}

// Work that does not end delays the next leader by at most WorkTimeout.
func TestWorkThatDoesNotEnd(t *testing.T) {
	client := etcdtest.Client(t)
	a := start(t, client, "a:1", func(c *MemberConfig) { c.WorkTimeout = 50 * time.Millisecond })
	awaitLeads(t, a)
	b := start(t, client, "b:1")
	inside, finish, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Lead(context.Background(), func(context.Context, Term) error {
			close(inside)
			<-finish
			return nil
		})
	}()
	<-inside
	require.NoError(t, a.Resign(etcdtest.Context(t)))
	awaitLeads(t, b)
	close(finish)
	<-ended
}

func TestWatchSaysNoLeader(t *testing.T) {
	client := etcdtest.Client(t)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	o := start(t, client, "o:1", func(c *MemberConfig) { c.Observer = true })
	seen, err := o.Watch(ctx)
	require.NoError(t, err)
	require.Equal(t, Leader{}, <-seen, "no leader is said, not left out")
	a := start(t, client, "a:1")
	l := <-seen
	require.Equal(t, "a:1", l.Address)
	require.NoError(t, a.Stop(ctx))
	require.Equal(t, "", (<-seen).Address)
	cancel()
	_, open := <-seen
	require.False(t, open)
	_, err = a.Watch(etcdtest.Context(t))
	require.ErrorIs(t, err, ErrStopped)
}

func TestTransfer(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	require.ErrorIs(t, a.Transfer(ctx, "b:1"), ErrOutsider, "without member records everybody is an outsider")
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	server := etcdtest.Client(t)
	silent := clientv3.NewCtxClient(context.Background())
	silent.KV, silent.Watcher, silent.Lease = server.KV, server.Watcher, hangingLease{server.Lease}
	le := stands(t, silent, "a:1")
	defer le.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, le.Start(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, le.Start(etcdtest.Context(t)), ErrStarted)
}

// hangingLease never grants, like an etcd that is away.
type hangingLease struct{ clientv3.Lease }

func (hangingLease) Grant(ctx context.Context, _ int64) (*clientv3.LeaseGrantResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

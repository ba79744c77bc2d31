package history

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// denyingTerm answers transactions with an error.
type denyingTerm struct{ err error }

func (d denyingTerm) Token() int64                           { return 9 }
func (d denyingTerm) Txn(context.Context) clientv3.Txn       { return d }
func (d denyingTerm) If(...clientv3.Cmp) clientv3.Txn        { return d }
func (d denyingTerm) Then(...clientv3.Op) clientv3.Txn       { return d }
func (d denyingTerm) Else(...clientv3.Op) clientv3.Txn       { return d }
func (d denyingTerm) Commit() (*clientv3.TxnResponse, error) { return nil, d.err }

func TestOperationsAreRecordedWithTheirOutcome(t *testing.T) {
	c := clustertest.New(t, 0)
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	g := rec.Register("a", c.Client(), key)
	ctx := t.Context()
	empty := g.Read(ctx)
	require.Equal(t, OutcomeAccepted, empty.Outcome)
	require.Zero(t, empty.Revision)
	accepted := g.Write(ctx, unfencedTerm{3, c.Client()})
	require.Equal(t, OutcomeAccepted, accepted.Outcome)
	refused := g.Write(ctx, denyingTerm{&leaderelection.TermOverError{Token: 9}})
	require.Equal(t, OutcomeRefused, refused.Outcome)
	unknown := g.Write(ctx, denyingTerm{errors.New("lost")})
	require.Equal(t, OutcomeUnknown, unknown.Outcome)
	read := g.Read(ctx)
	require.Equal(t, []any{accepted.Value, int64(3), accepted.Revision}, []any{read.Value, read.Token, read.Revision})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.Equal(t, OutcomeUnknown, g.Read(ended).Outcome)

	ops := p.readHistory(t).Ops
	require.Equal(t, []Op{empty, accepted, refused, unknown, read}, ops, "a read without an answer says nothing")
	at := Instant(0)
	for _, op := range ops {
		require.LessOrEqual(t, at, op.Call)
		require.LessOrEqual(t, op.Call, op.Return)
		at = op.Return
	}
}

// TestAttemptIsRecordedBeforeItIsSent checks that an attempt is recorded before it is sent, because a crash
// leaves only that.
func TestAttemptIsRecordedBeforeItIsSent(t *testing.T) {
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	var left History
	g := rec.Register("a", nil, key)
	g.Write(t.Context(), hookedTerm{denyingTerm{leaderelection.ErrTermOver}, func() { left = p.readHistory(t) }})
	require.Len(t, left.Ops, 1)
	require.Equal(t, OutcomeUnknown, left.Ops[0].Outcome)
	require.Equal(t, OutcomeRefused, p.readHistory(t).Ops[0].Outcome)
}

// hookedTerm calls a function before the transaction begins.
type hookedTerm struct {
	denyingTerm
	before func()
}

func (l hookedTerm) Txn(context.Context) clientv3.Txn { l.before(); return l }

func TestFollowSeesAllAndSaysWhatWasCompacted(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	g := rec.Register("a", c.Client(), key)
	var ops []Op
	for range 4 {
		ops = append(ops, g.Write(t.Context(), unfencedTerm{3, c.Client()}))
	}
	_, err := c.Client().Compact(t.Context(), ops[2].Revision)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := g.Follow(ctx, ops[0].Revision); err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, func() bool { return len(p.readHistory(t).Entries) == 2 }, time.Minute, 5*time.Millisecond)
	// Follow continues until it has seen the register's content at the time when it is asked to end.
	for range 50 {
		ops = append(ops, g.Write(t.Context(), unfencedTerm{3, c.Client()}))
	}
	cancel()
	wg.Wait()
	h := p.readHistory(t)
	require.Equal(t, []Gap{{Key: key, From: ops[0].Revision, To: ops[2].Revision}}, h.Gaps)
	require.Len(t, h.Entries, len(ops)-2)
	for i, e := range h.Entries {
		require.Equal(t, ops[i+2].Revision, e.Revision)
		require.Equal(t, ops[i+2].Value, e.Value)
		require.EqualValues(t, 3, e.Token)
	}
	h.Runs = []Run{idleRun("a", Candidate, 0, 1)}
	require.True(t, Check(h, Limits{}).OK())
}

func TestFollowFindsForeignHands(t *testing.T) {
	c := clustertest.New(t, 0)
	p := &recordedOutput{}
	g := NewRecorder(p, "test").Register("a", c.Client(), key)
	first := g.Write(t.Context(), unfencedTerm{3, c.Client()})
	_, err := c.Client().Put(t.Context(), key, "hello")
	require.NoError(t, err)
	_, err = c.Client().Delete(t.Context(), key)
	require.NoError(t, err)
	g.Write(t.Context(), unfencedTerm{3, c.Client()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, g.Follow(ctx, first.Revision))
	h := p.readHistory(t)
	require.Len(t, h.Entries, 4)
	h.Runs = []Run{idleRun("a", Candidate, 0, 1)}
	require.Equal(t, []Kind{NotLinearizable, NotLinearizable}, kinds(Check(h, Limits{}).Findings))
}

// TestFollowThatMissesTheEndSaysSo checks that Follow returns an error if it cannot catch up.
func TestFollowThatMissesTheEndSaysSo(t *testing.T) {
	t.Parallel()
	etcd, err := etcdtest.StartWith(t.Context(), etcdtest.Config{})
	require.NoError(t, err)
	g := NewRecorder(&recordedOutput{}, "test").Register("a", etcd.Client(), key)
	g.Write(t.Context(), unfencedTerm{3, etcd.Client()})
	require.NoError(t, etcd.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, g.Follow(ctx, 1))
}

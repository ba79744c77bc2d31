package leaderelection

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// inside makes le run do as the leader. goOn lets do proceed; result receives its result.
func inside(t *testing.T, le *one, do func(ctx context.Context, term Term) error) (goOn func(),
	result <-chan error) {
	t.Helper()
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- le.AsLeader(t.Context(), func(ctx context.Context, term Term) error {
			close(in)
			<-out
			return do(ctx, term)
		})
	}()
	<-in
	return func() { close(out) }, done
}

// put returns a function that writes within the term.
func put(key string) func(ctx context.Context, term Term) error {
	return func(ctx context.Context, term Term) error {
		_, err := term.Txn(ctx).Then(clientv3.OpPut(key, "done")).Commit()
		return err
	}
}

// A leader that gives way waits for AsLeader's work. The work still writes although the flag is down, and no
// other node leads before it has returned.
func TestAsLeaderOutlastsTheFlag(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	for name, give := range map[string]func(le *one) error{
		"resign": func(le *one) error { return le.Resign(ctx) },
		"stop":   func(le *one) error { return le.Stop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			prefix := func(c *MemberConfig) { c.Keys = keysOf(t, "/"+name) }
			a := start(t, client, "a:1", prefix)
			awaitLeads(t, a)
			b := start(t, client, "b:1", prefix)
			require.ErrorIs(t, b.AsLeader(ctx, func(context.Context, Term) error {
				t.Error("it does not lead")
				return nil
			}), ErrNotLeader)
			goOn, result := inside(t, a, func(ctx context.Context, term Term) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return put("/written/"+name)(ctx, term)
			})
			gone := make(chan error, 1)
			go func() { gone <- give(a) }()
			require.NoError(t, a.waitUntil(ctx, func() bool { return !a.IsLeader() }))
			require.ErrorIs(t, a.AsLeader(ctx, nil), ErrNotLeader, "nothing begins any more")
			require.False(t, b.IsLeader())
			require.Empty(t, gone)
			goOn()
			require.NoError(t, <-result)
			require.NoError(t, <-gone)
			second := awaitLeads(t, b)
			got, err := client.Get(ctx, "/written/"+name)
			require.NoError(t, err)
			require.Len(t, got.Kvs, 1)
			require.NotZero(t, second.Token())
		})
	}
}

// Work that takes longer than WorkTimeout is cut off, and its write refused.
func TestAsLeaderEndsWithWorkTimeout(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1", func(c *MemberConfig) { c.WorkTimeout = 50 * time.Millisecond })
	awaitLeads(t, a)
	b := start(t, client, "b:1")
	goOn, result := inside(t, a, func(ctx context.Context, term Term) error {
		<-ctx.Done()
		require.Equal(t, ReasonResigned, ReasonOf(context.Cause(ctx)))
		require.ErrorIs(t, put("/late")(context.WithoutCancel(ctx), term), ErrTermOver)
		return ctx.Err()
	})
	goOn()
	require.NoError(t, a.Resign(ctx))
	require.ErrorIs(t, <-result, ErrTermOver)
	awaitLeads(t, b)
}

// AsLeader's work ends at once when the leading key is deleted, and when the session is lost.
func TestAsLeaderEndsWithTheTerm(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1")
	until := func(ctx context.Context, _ Term) error { <-ctx.Done(); return ctx.Err() }
	for _, fault := range []func() error{
		func() error {
			_, err := client.Delete(ctx, a.keys.Queue(), clientv3.WithPrefix())
			return err
		},
		func() error {
			_, err := client.Revoke(ctx, a.keeper.Current().ID())
			return err
		},
	} {
		awaitLeads(t, a)
		goOn, result := inside(t, a, until)
		goOn()
		require.NoError(t, fault())
		err := <-result
		require.ErrorIs(t, err, ErrTermOver)
		require.Contains(t, []Reason{ReasonSessionLost, ReasonKeyLost}, ReasonOf(err))
	}
}

// AsLeader's work ends when the leading key is deleted while the leader that gives way waits: the next one
// leads at once.
func TestAsLeaderEndsWithTheKey(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := etcdtest.Context(t)
	a := start(t, client, "a:1", func(c *MemberConfig) { c.WorkTimeout = time.Hour })
	key := a.keys.Candidate(int64(a.keeper.Current().ID()))
	awaitLeads(t, a)
	b := start(t, client, "b:1")
	goOn, result := inside(t, a, func(ctx context.Context, _ Term) error { <-ctx.Done(); return ctx.Err() })
	goOn()
	gone := make(chan error, 1)
	go func() { gone <- a.Resign(ctx) }()
	require.NoError(t, a.waitUntil(ctx, func() bool { return !a.IsLeader() }))
	_, err := client.Delete(ctx, key)
	require.NoError(t, err)
	require.ErrorIs(t, <-result, ErrTermOver)
	require.NoError(t, <-gone)
	awaitLeads(t, b)
}

// A function may return the context's error or its cause: that the session is lost is the end of the term, for Lead,
// LeadEach and AsLeader alike.
func TestTheCauseIsTheEndOfTheTerm(t *testing.T) {
	client := etcdtest.Client(t)
	a := start(t, client, "a:1")
	for name, lead := range map[string]func(context.Context, func(context.Context, Term) error) error{
		"Lead": a.Lead, "AsLeader": a.AsLeader} {
		awaitLeads(t, a)
		err := lead(t.Context(), func(ctx context.Context, _ Term) error {
			a.keeper.Current().EndLocally(session.ReasonRevoked, nil)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, ErrTermOver, name)
		require.ErrorIs(t, err, session.ErrLost, name)
		require.Equal(t, ReasonSessionLost, ReasonOf(err), name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	terms := 0
	require.ErrorIs(t, a.LeadEach(ctx, func(ctx context.Context, _ Term) error {
		if terms++; terms == 2 {
			cancel()
			return nil
		}
		a.keeper.Current().EndLocally(session.ReasonRevoked, nil)
		<-ctx.Done()
		return context.Cause(ctx)
	}), context.Canceled, "every term")
}

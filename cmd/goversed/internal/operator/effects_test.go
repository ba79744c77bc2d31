package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// leaveUnresolved makes an attempt of the effect end without a recorded outcome.
func leaveUnresolved(t *testing.T, c *clustertest.Cluster, name string) {
	t.Helper()
	require.Panics(t, func() {
		_, _ = c.Node(0).Cluster().Once(testContext(t), name, func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
}

func TestEffects(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int,
		cfg *cluster.Config) {
		cfg.OnceRetention = 48 * time.Hour
	}))
	o, node := openOperator(t, c), c.Node(0).Cluster()
	all, err := o.Effects(testContext(t), time.Minute, ListQuery{Limit: 10}, false)
	require.NoError(t, err)
	require.Equal(t, List[Effect]{Items: []Effect{}}, all)
	_, err = o.Effect(testContext(t), "mail")
	require.ErrorIs(t, err, once.ErrNoMark)
	require.ErrorContains(t, err, "goversed effects shows")

	_, err = node.Once(testContext(t), "mail", func(context.Context, int64) ([]byte, error) {
		return []byte("number 7"),
			nil
	})
	require.NoError(t, err)
	leaveUnresolved(t, c, "a bill")
	all, err = o.Effects(testContext(t), time.Minute, ListQuery{Limit: 10}, true)
	require.NoError(t, err)
	require.Len(t, all.Items, 1)
	bill := all.Items[0]
	require.Equal(t, Effect{Name: "a bill", Key: "/goverse/work/marks/a%20bill", State: once.Unknown, Attempt: 1,
		Token: bill.Token,
		By:    c.Node(0).Address(), At: bill.At}, bill)
	all, err = o.Effects(testContext(t), time.Minute, ListQuery{Limit: 1, After: "a bill"}, false)
	require.NoError(t, err)
	require.Equal(t, "mail", all.Items[0].Name)
	require.Equal(t, 8, all.Items[0].Size)
	require.Empty(t, all.Items[0].Result)
	mail, err := o.Effect(testContext(t), "mail")
	require.NoError(t, err)
	require.Equal(t, "number 7", string(mail.Result))

	// Neither another attempt nor a known outcome can be resolved.
	_, err = o.Resolve(testContext(t), patience, "a bill", bill.Token+1, true, nil)
	require.ErrorIs(t, err, once.ErrNotUnknown)
	require.ErrorContains(t, err, "look at it anew")
	_, err = o.Resolve(testContext(t), patience, "mail", mail.Token, false, nil)
	require.ErrorIs(t, err, once.ErrNotUnknown)
	require.ErrorContains(t, err, "is done")
	_, err = o.Resolve(testContext(t), patience, "nothing", 1, false, nil)
	require.ErrorIs(t, err, once.ErrNoMark)
	_, err = o.Resolve(testContext(t), patience, "", 1, false, nil)
	require.ErrorIs(t, err, lifecycle.ErrBadName)

	resolved, err := o.Resolve(testContext(t), patience, "a bill", bill.Token, true, []byte("paid"))
	require.NoError(t, err)
	now, err := o.Effect(testContext(t), "a bill")
	require.NoError(t, err)
	require.True(t, now.At.After(bill.At))
	resolved.At = now.At
	require.Equal(t, now, resolved)
	require.Equal(t, once.Done, now.State)
	require.Equal(t, "an operator", now.Resolved)
	r, err := node.Once(testContext(t), "a bill", func(context.Context, int64) ([]byte, error) { panic("it took place") })
	require.NoError(t, err)
	require.Equal(t, "paid", string(r.Value))
	// The outcome is kept as long as by the nodes, and no session is left.
	mark, err := c.Client().Get(testContext(t), nodetest.Keys.EffectMark("a bill"))
	require.NoError(t, err)
	ttl, err := c.Client().TimeToLive(testContext(t), clientv3.LeaseID(mark.Kvs[0].Lease))
	require.NoError(t, err)
	require.Greater(t, ttl.TTL, int64(47*3600))
	leases, err := c.Client().Leases(testContext(t))
	require.NoError(t, err)
	require.Len(t, leases.Leases, 3, "the node's session, and those of its marks and of this one")
}

// An attempt is refused as long as its session exists in etcd. Then it can be resolved, even if its process
// continues.
func TestResolveOfOneThatRuns(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	o := openOperator(t, c)
	inside, goOn, ended := make(chan int64), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Node(0).Cluster().Once(testContext(t), "bill", func(_ context.Context, token int64) ([]byte, error) {
			inside <- token
			<-goOn
			return nil, nil
		})
		ended <- err
	}()
	token := <-inside
	_, err := o.Resolve(testContext(t), patience, "bill", token, false, nil)
	require.ErrorIs(t, err, ErrStillRunning)
	require.ErrorContains(t, err, c.Node(0).Address())
	running, err := o.Effect(testContext(t), "bill")
	require.NoError(t, err)
	require.Equal(t, once.Running, running.State)

	c.RevokeLease(c.Node(0))
	c.Eventually(func() bool {
		e, err := o.Effect(testContext(t), "bill")
		return err == nil && e.State == once.Unknown
	}, "its session has ended")
	_, err = o.Resolve(testContext(t), patience, "bill", token, false, nil)
	require.NoError(t, err)
	close(goOn)
	require.Error(t, <-ended)
	r, err := c.Node(1).Cluster().Once(testContext(t), "bill", func(context.Context, int64) ([]byte,
		error) {
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 2, r.Attempt)
}

// openUnresolvedEffect returns an effect with an unknown outcome as the operator sees it, in a cluster of its own.
func openUnresolvedEffect(t *testing.T) (*clustertest.Cluster, *Operator, Effect) {
	t.Parallel()
	c := clustertest.New(t, 1)
	leaveUnresolved(t, c, "bill")
	o := openOperator(t, c)
	e, err := o.Effect(testContext(t), "bill")
	require.NoError(t, err)
	return c, o, e
}

// Of two operators that saw the same attempt, only the first can resolve it.
func TestResolveTwice(t *testing.T) {
	_, o, e := openUnresolvedEffect(t)
	const both = 2
	errs := make(chan error, both)
	for i := range both {
		go func() {
			_, err := o.Resolve(testContext(t), patience, "bill", e.Token, i == 0, nil)
			errs <- err
		}()
	}
	first, second := <-errs, <-errs
	require.True(t, (first == nil) != (second == nil), "%v, %v", first, second)
	require.ErrorIs(t, errors.Join(first, second), once.ErrNotUnknown)
}

// Another entry is first in the queue and stays there. No answer comes, and the error reports that the outcome
// may have been written.
func TestResolveIsNotConfirmed(t *testing.T) {
	c, o, e := openUnresolvedEffect(t)
	_, err := c.Client().Put(testContext(t), nodetest.Keys.Effects().EntryKey("bill", 1, 1, state.EntryTraits{}),
		"another")
	require.NoError(t, err)
	_, err = o.Resolve(testContext(t), time.Second, "bill", e.Token, true, nil)
	require.ErrorIs(t, err, ErrNotConfirmed)
	now, err := o.Effect(testContext(t), "bill")
	require.NoError(t, err)
	require.Equal(t, e, now)
}

// slowKV answers some requests immediately, and the others only when their context has ended.
type slowKV struct {
	clientv3.KV
	asked   atomic.Int64
	answers func(request int64) bool
}

func (s *slowKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if !s.answers(s.asked.Add(1)) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.KV.Get(ctx, key, opts...)
}

// A list continues as long as etcd answers something within the time-out. Only the end of ctx cuts it short,
// and the effects found by then are returned.
func TestEffectsTakeAsLongAsTheyNeed(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	c := clustertest.New(t, 1)
	o := openOperator(t, c)
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("%02d", i))
		_, err := c.Client().Put(testContext(t), nodetest.Keys.EffectMark(want[i]), `{"state":"done","attempt":1,"token":1}`)
		require.NoError(t, err)
	}
	names := func(all List[Effect]) (names []string) {
		for _, e := range all.Items {
			names = append(names, e.Name)
		}
		return names
	}
	etcd := &slowKV{KV: o.client.KV, answers: func(request int64) bool { return request != 2 }}
	o.client.KV = etcd
	all, err := o.Effects(testContext(t), timeout, ListQuery{Limit: 55}, false)
	require.NoError(t, err)
	require.Equal(t, want[:55], names(all))
	require.True(t, all.More)
	require.False(t, all.timedOut)
	require.Equal(t, want[54], all.Next)
	require.Greater(t, etcd.asked.Load(), int64(2))

	etcd.asked.Store(0) // the first step ends after a page, which is as many as asked for
	all, err = o.Effects(testContext(t), timeout, ListQuery{Limit: 50}, false)
	require.NoError(t, err)
	require.Equal(t, want[:50], names(all))
	require.True(t, all.More)
	require.False(t, all.timedOut)
	require.Equal(t, want[49], all.Next)

	etcd.asked.Store(0)
	etcd.answers = func(request int64) bool { return request == 1 }
	ctx, cancel := context.WithTimeout(testContext(t), timeout)
	defer cancel()
	all, err = o.Effects(ctx, timeout, ListQuery{Limit: 1000}, false)
	require.NoError(t, err)
	require.Equal(t, want[:50], names(all), "a page")
	require.True(t, all.More)
	require.True(t, all.timedOut)
	require.Equal(t, want[49], all.Next)
}

func TestPrintEffects(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	done := Effect{Name: "mail", Key: "/goverse/work/marks/mail", State: once.Done, Attempt: 2, Token: 9, By: "a:1",
		At: at, Resolved: "an operator",
		Size: 2, Result: []byte("\x00\n")}
	all := List[Effect]{More: true, Next: "odd", Items: []Effect{
		{Name: "a \x1b[31mbill", State: once.Unknown, Attempt: 1, Token: 7, By: "a:1", At: at}, done,
		{Name: "out", State: once.Failed, Attempt: 1, Token: 8, By: "b:1", Error: "a tab\tand " + strings.Repeat("y", 50)},
		{Name: "odd", State: once.Unreadable, Error: "not json"},
	}}
	var out strings.Builder
	require.NoError(t, PrintEffects(&out, "under /p", all, false))
	require.Equal(t, `EFFECT            STATE       ATTEMPT  TOKEN  BY   SINCE                 NOTES
"a \x1b[31mbill"  unknown     1        7      a:1  2026-07-01T12:00:00Z  -
mail              done        2        9      a:1  2026-07-01T12:00:00Z  resolved by an operator
out               failed      1        8      b:1  -                     "a tab\tand yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy..."
odd               unreadable  0        0      ""   -                     not json

there are more: go on with --after odd, or give a larger --limit
`, out.String())
	out.Reset()
	require.NoError(t, PrintEffects(&out, "under /p", List[Effect]{}, false))
	require.Equal(t, "no effects under /p\n", out.String())
	out.Reset()
	require.NoError(t, PrintEffects(&out, "under /p", List[Effect]{More: true, Next: `"a b"`, timedOut: true}, false))
	require.Contains(t, out.String(), `go on with --after "a b"`)

	show := func(e Effect) string {
		out.Reset()
		require.NoError(t, PrintEffect(&out, e, false))
		return out.String()
	}
	require.Equal(t, "effect    mail\nkey       /goverse/work/marks/mail\nstate     done\nattempt   2 by a:1\ntoken    "+
		" 9\nsince     2026-07-01T12:00:00Z\nresolved  by an operator\nresult    \"\\x00\\n\"\n", show(done))
	require.Contains(t, show(all.Items[0]), "goversed effects resolve NAME 7 --done, or --failed")
	require.Contains(t, show(all.Items[2]), `error     "a tab\tand yy`)
	require.Contains(t, show(all.Items[3]), "error     not json\n")
	done.Size, done.Result = 1000, []byte(strings.Repeat("y", 1000))
	require.Contains(t, show(done), "yyy... (1000 bytes; -o json has all)\n")
	done.Size, done.Result, done.Dropped = 70000, nil, true
	require.Contains(t, show(done), "result    not kept: it had 70000 bytes of at most 65536\n")
	done.Size, done.Result, done.Dropped = 0, nil, false
	require.Contains(t, show(done), "result    empty\n")

	out.Reset()
	require.NoError(t, PrintResolved(&out, done, false))
	require.Equal(t, "mail is done (attempt 2, token 9): it took place, and is not run again\n", out.String())
	out.Reset()
	require.NoError(t, PrintResolved(&out, all.Items[2], false))
	require.Contains(t, out.String(), "runs it again")
	out.Reset()
	require.NoError(t, PrintResolved(&out, all.Items[0], true))
	require.Contains(t, out.String(), `"state":"unknown","attempt":1,"token":7`)
}

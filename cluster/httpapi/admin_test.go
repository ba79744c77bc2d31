package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// administered returns a cluster with shards, and the handler of its second node with admin calls.
func administered(t *testing.T, alter ...func(*Admin)) (*clustertest.Cluster, http.Handler, *logtest.Buffer) {
	t.Helper()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}
	}))
	c.WaitLeaderIs(c.Node(0).Address())
	c.Eventually(func() bool {
		return c.Node(0).Cluster().Shards().Held() == 8 && c.Node(1).Cluster().Shards().Held() == 8
	}, "each has its share")
	log := &logtest.Buffer{}
	admin := &Admin{Authorize: BearerToken("ops", token), Logger: log.Logger()}
	for _, f := range alter {
		f(admin)
	}
	return c, New(c.Node(1).Cluster(), Options{Admin: admin}), log
}

// does makes an admin call and decodes the response.
func does[T any](t *testing.T, h http.Handler, status int, path, body string) (answer T) {
	t.Helper()
	w := serve(h, post("/cluster/admin/"+path, body))
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

// refuses makes an admin call and requires that it is refused.
func refuses(t *testing.T, h http.Handler, status int, kind, path, body string) string {
	t.Helper()
	p := problemIn(t, serve(h, post("/cluster/admin/"+path, body)))
	require.Equal(t, status, p.Status, p.Detail)
	require.Equal(t, map[bool]string{true: "about:blank", false: problemTypes + kind}[kind == ""], p.Type, p.Detail)
	return p.Detail
}

func TestMoveTheLeadership(t *testing.T) {
	t.Parallel()
	c, h, log := administered(t)
	first, second := c.Node(0), c.Node(1)
	before := first.Cluster().Leader().Token
	m := does[Moved](t, h, 200, "transfer", `{"to":"`+second.Address()+`"}`)
	require.Equal(t, Moved{LeaderID: second.Address(), Token: m.Token, PreviousLeaderID: first.Address(),
		PreviousToken: before, Moved: true}, m)
	c.WaitQueue(second.Address(), first.Address())
	require.False(t, does[Moved](t, h, 200, "transfer", `{"to":"`+second.Address()+`"}`).Moved)
	m = does[Moved](t, h, 200, "resign", "")
	require.Equal(t, first.Address(), m.LeaderID)
	require.Contains(t, log.Line("admin call", "/cluster/admin/resign"), `by="token ops"`)

	refuses(t, h, 404, "unknown", "transfer", `{"to":"127.0.0.1:1"}`)
	for body, says := range map[string]string{"": `"to" is missing`, "{}": `"to" is missing`, `{"to":1}`: "not the JSON",
		`{"node":"x"}`: `unknown field "node"`, `{"to":"x"} {}`: "something follows",
		"[]": "not the JSON", "{": "not the JSON"} {
		require.Contains(t, refuses(t, h, 400, "", "transfer", body), says)
	}
	refuses(t, h, 400, "", "resign", `{"to":"x"}`)
}

func TestMoveANamedElection(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t)
	const name = "a name/with, all & 100%"
	at := "elections/" + url.PathEscape(name) + "/"
	refuses(t, h, 503, "no-leader", at+"resign", "{}")
	first, err := c.Node(0).Cluster().Elections().Stand(name)
	require.NoError(t, err)
	c.Eventually(first.IsLeader, "it leads")
	second, err := c.Node(1).Cluster().Elections().Stand(name)
	require.NoError(t, err)
	c.Eventually(func() bool { return len(second.Queue()) == 2 && len(first.Queue()) == 2 }, "it stands")
	before := first.Leader().Token
	m := does[Moved](t, h, 200, at+"transfer", `{"to":"`+c.Node(1).Address()+`"}`)
	require.Equal(t, Moved{LeaderID: c.Node(1).Address(), Token: m.Token, PreviousLeaderID: c.Node(0).Address(),
		PreviousToken: before, Moved: true}, m)
	c.Eventually(func() bool { return second.IsLeader() && len(second.Queue()) == 2 }, "it leads, the other waits")
	require.True(t, does[Moved](t, h, 200, at+"resign", "{}").Moved)
	refuses(t, h, 409, "refused", at+"transfer", `{"to":"127.0.0.1:1"}`)
	refuses(t, h, 400, "", "elections/"+strings.Repeat("x", 513)+"/resign", "{}")
}

func TestDrainANode(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t, func(a *Admin) { a.Timeout = 15 * time.Second })
	first := c.Node(0).Address()
	body := `{"node":"` + first + `"}`
	d := does[Drained](t, h, 200, "drain", body)
	require.Equal(t, Drained{Address: first, Incarnation: d.Incarnation, Draining: true, Changed: true, ShardsBefore: 8,
		IsLeader: true}, d)
	refuses(t, h, 409, "refused", "drain", `{"node":"`+c.Node(1).Address()+`"}`)
	refuses(t, h, 404, "unknown", "drain", `{"node":"127.0.0.1:1"}`)
	refuses(t, h, 400, "", "undrain", "{}")
	d = does[Drained](t, h, 200, "undrain", body)
	require.Equal(t, Drained{Address: first, Incarnation: d.Incarnation, Changed: true, IsLeader: true}, d)

	// A drain that takes longer than the call goes on.
	c.Eventually(func() bool { return c.Node(0).Cluster().Shards().Held() > 0 }, "it has shards again")
	held := make(chan struct{})
	key := ""
	for i := 0; key == ""; i++ {
		if k := string(rune('a' + i)); func() bool {
			o, ok := c.Node(0).Cluster().Shards().Owner(k)
			return ok && o.Address == first
		}() {
			key = k
		}
	}
	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Node(0).Cluster().Shards().Serve(t.Context(), key, func(context.Context, int64) error {
			close(inside)
			<-held
			return nil
		})
	}()
	<-inside
	brief := New(c.Node(1).Cluster(), Options{Admin: &Admin{Authorize: BearerToken("ops", token),
		Timeout: time.Second}})
	d = does[Drained](t, brief, 202, "drain", body)
	require.True(t, d.Draining)
	require.Positive(t, d.ShardsLeft)
	close(held)
	<-ended
	c.Eventually(func() bool { return c.Node(0).Cluster().Shards().Held() == 0 }, "it went on")
}

func TestResolveAnEffect(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t)
	ctx := etcdtest.Context(t)
	unknown := func(name string) int64 {
		require.Panics(t, func() {
			_, _ = c.Node(0).Cluster().Once(ctx, name, func(context.Context, int64) ([]byte, error) { panic("oops") })
		})
		s, err := c.Node(0).Cluster().Effects().Look(ctx, name)
		require.NoError(t, err)
		return s.Token
	}
	at := "effects/" + url.PathEscape("mail/1") + "/resolve"
	refuses(t, h, 404, "unknown", at, `{"token":1,"outcome":"done"}`)
	token := unknown("mail/1")
	for _, body := range []string{"{}", `{"token":1}`, `{"token":1,"outcome":"perhaps"}`,
		`{"token":1,"outcome":"failed","result":"eA=="}`, `{"token":"x"}`} {
		refuses(t, h, 400, "", at, body)
	}
	refuses(t, h, 409, "refused", at, `{"token":1,"outcome":"done"}`)
	c.Eventually(func() bool {
		s, err := c.Node(0).Cluster().Effects().Look(ctx, "mail/1")
		return err == nil && s.State == once.Unknown
	}, "its outcome is unknown")
	say, err := json.Marshal(ResolveRequest{Token: token, Outcome: once.Done, Result: []byte("message 7")})
	require.NoError(t, err)
	e := does[Effect](t, h, 200, at, string(say))
	require.Equal(t, Effect{Name: "mail/1", State: once.Done, Attempt: 1, Token: token, By: c.Node(0).Address(), At: e.At,
		ResolvedBy: c.Node(1).Address(), ResultBytes: 9}, e)
	got, err := c.Node(0).Cluster().Once(ctx, "mail/1", nothing)
	require.NoError(t, err)
	require.Equal(t, "message 7", string(got.Value))
	refuses(t, h, 409, "refused", at, string(say))
	big, err := json.Marshal(ResolveRequest{Token: 1, Outcome: once.Done, Result: make([]byte, once.MaxValue+1)})
	require.NoError(t, err)
	refuses(t, h, 400, "", at, string(big))
}

// A caller learns whether it is authorized, and nothing changes.
func TestCheck(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t)
	before := c.Node(0).Cluster().Leader()
	require.Equal(t, Checked{NodeID: c.Node(1).Address(), Caller: "token ops"}, does[Checked](t, h, 200, "check", "{}"))
	require.Equal(t, before, c.Node(0).Cluster().Leader())
	refuses(t, h, 400, "", "check", `{"more":1}`)
	r := post("/cluster/admin/check", "{}")
	r.Header.Set("Authorization", "Bearer "+token+"x")
	require.Equal(t, http.StatusForbidden, serve(h, r).Code)
}

// Calls that cannot be done in time, or on a node that is not a member, return an error.
func TestAdminWithoutEtcd(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t, func(a *Admin) { a.Timeout = 300 * time.Millisecond })
	_, err := c.Client().Put(etcdtest.Context(t), nodetest.Keys.Elections().EntryKey("old", 1, 1, state.EntryTraits{}),
		"old:1")
	require.NoError(t, err)
	refuses(t, h, 504, "not-done", "elections/old/resign", "{}") // the leader does not handle requests
	c.Node(1).Stop()
	refuses(t, h, 503, "not-running", "resign", "{}")
	require.ErrorIs(t, c.Node(1).Cluster().RequestResign(t.Context()), leaderelection.ErrStopped)
}

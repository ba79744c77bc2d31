//go:build unix

package dashboard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// joinPG makes a node in PostgreSQL that leaves with the test.
func joinPG(t *testing.T, url, owner string) *pgnode.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: url, Owner: owner, Deadline: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	n, err := pgnode.Join(ctx, s, pgnode.Config{Version: "1", Labels: map[string]string{"zone": "x"}})
	require.NoError(t, err)
	return n
}

// Without etcd the page shows what there is: leader, queue, nodes, elections, locks and events. It has no sections of
// shards and objects, and asks for nothing that is not there.
func TestNodesInPostgreSQL(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	b := browser.Start(t)
	one := joinPG(t, db.URL(), "one")
	require.Eventually(t, one.IsLeader, time.Minute, time.Millisecond)
	joinPG(t, db.URL(), "two")
	origin := serve(t, httpapi.New(one, httpapi.Options{}))
	p := b.Open(t, desk, origin+"/")
	p.Await(t, count("#nodes tbody tr", 2))
	p.Await(t, `document.querySelector("#leader .who").textContent.includes("one")`)
	p.Await(t, `document.querySelector("#live").textContent === "live"`)
	p.Await(t, count("#queue li", 2))
	p.Await(t, `document.querySelectorAll("#events .event").length >= 3`)
	p.Await(t, `document.querySelector("#foot").textContent.includes("of PostgreSQL")`)
	p.Await(t, count("#tiles > div", 2))
	for _, tab := range []string{"locks", "processors", "elections", "all"} {
		p.Await(t, do(`document.querySelector("#tab-`+tab+`").click()`)+
			` && document.querySelector("#panel").textContent !== ""`)
	}
	for _, heading := range []string{"h-shards", "h-services", "h-commands"} {
		require.True(t, browser.Eval[bool](t, p, `document.getElementById("`+heading+`").offsetParent === null`), heading)
	}
	require.True(t, browser.Eval[bool](t, p, `document.querySelector("#tab-effects") === null`))
	require.NotContains(t, browser.Eval[string](t, p, `document.querySelector("main").innerText`), "etcd")
	p.RequireClean(t, origin)
}

package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// A node that does not answer is marked in the table, and a leader also beside its name, for as long as it lasts.
func TestSilentLeaderIsMarked(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t, clustertest.WithTTL(10)) // the mark belongs to one incarnation
	leader, ok := c.Node(0).Cluster().Member(c.Node(0).Address())
	require.True(t, ok)
	origin := serve(t, handler(c, 1))
	p := b.Open(t, desk, origin+"/")
	p.Await(t, count("#nodes tbody tr", 3))
	p.Await(t, count(".silence", 0))
	remove := c.PutStrayKey(nodetest.Keys.Silence(leader.Address, "x"),
		state.SilenceRecord{Incarnation: leader.Incarnation, SilentMS: 4100}.Encode())
	defer remove()
	p.Await(t, `/not answering for \d+ s, seen by 1 node/.test(document.querySelector("#leader .silence")?.textContent)`)
	p.Await(t, count("#nodes .silence", 1))
	p.Await(t, `document.querySelector("#events").textContent.includes(" does not answer")`)
	remove()
	p.Await(t, count(".silence", 0))
	p.Await(t, `document.querySelector("#events").textContent.includes(" answers again")`)
	p.RequireClean(t, origin)
}

//go:build unix

package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/browser"
)

// showsLeader returns a JavaScript expression that is true if a page shows the leader.
func showsLeader(leader *procs.Node) string {
	return fmt.Sprintf(`document.querySelector("#leader .who")?.textContent.includes(%q)`, leader.Address)
}

const (
	isLive  = `document.querySelector("#live").textContent === "live"`
	isStale = `document.documentElement.classList.contains("stale")`
)

// The leader's process is killed. A page that is open on another node shows the next leader within a second,
// and the event with the time without a leader. It loads nothing from other servers. On a busy machine, one
// success in three attempts suffices.
func TestDashboardShowsTheNextLeader(t *testing.T) {
	b := browser.Start(t)
	etcd := kit.StartEtcd(t, procs.Etcd37)
	nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL}, 5)
	awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes))
	last := nodes[len(nodes)-1]
	p := b.Open(t, browser.View{Width: 1280, Height: 900}, last.Origin()+"/")
	p.Await(t, showsLeader(nodes[0])+" && "+isLive)
	p.Await(t, `document.querySelectorAll("#nodes tbody tr").length === 5`)
	for i := range 3 {
		took := killLeader(t, p, nodes[i], nodes[i+1])
		t.Logf("the page shows the next leader %v after the kill", took.Round(time.Millisecond))
		if took < time.Second {
			break
		}
		require.Less(t, i, 2, "never within a second")
	}
	p.Await(t, `/ leads, no node led for \d+ ms/.test(document.querySelector("#events").textContent)`)
	p.RequireClean(t, last.Origin())
}

// killLeader kills the leader's process and returns the time until the page shows the next leader. The page
// itself measures it, because the test's own requests to it take time.
func killLeader(t *testing.T, p *browser.Page, leader, next *procs.Node) time.Duration {
	t.Helper()
	watch := fmt.Sprintf(`(window.shown = 0, new MutationObserver(() => { if (%s) window.shown ||= Date.now(); })
		.observe(document.querySelector("#leader"), {childList: true, subtree: true, characterData: true}), true)`,
		showsLeader(next))
	require.True(t, browser.Eval[bool](t, p, watch))
	killed := leader.Kill(t)
	p.Await(t, "window.shown > 0")
	took := time.UnixMilli(browser.Eval[int64](t, p, "window.shown")).Sub(killed)
	p.Await(t, fmt.Sprintf(`!document.querySelector("#nodes tbody").textContent.includes(%q)`, leader.Address))
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#news").textContent`), next.Address)
	return took
}

// The page's node stops; the page reports that and turns grey. The node starts again at its address; the page
// becomes live by itself. A frozen node has the same effects. When etcd is gone, the page reports that its view
// is old.
func TestDashboardSaysWhenItIsNotCurrent(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	etcd := kit.StartEtcd(t, procs.Etcd37)
	cfg := procs.NodeConfig{Etcd: etcd.Endpoint, HTTP: kit.Addresses(t, 1)[0]}
	n := kit.StartNode(t, cfg)
	n.AwaitStatus(t, patience, "leads", leads)
	p := b.Open(t, browser.View{Width: 1280, Height: 900}, n.Origin()+"/")
	p.Await(t, showsLeader(n)+" && "+isLive+" && !"+isStale)

	n.Signal(t, syscall.SIGTERM)
	require.Zero(t, n.Exit(t, patience))
	p.Await(t, isStale)
	p.Await(t, `document.querySelector("#live").textContent.startsWith("reconnecting… last seen ")`)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#banner").textContent`), "Disconnected")

	cfg.Listen = n.Address
	again := kit.StartNode(t, cfg)
	took := p.Await(t, isLive+" && !"+isStale+" && "+showsLeader(again))
	t.Logf("the page is live %v after the node was started again", took.Round(time.Millisecond))

	// A silent node is detected by its missing heartbeats. Its lease has expired by then, so after resuming,
	// the page reports for a moment that the node is cut off from etcd.
	before, _ := again.AwaitStatus(t, patience, "leads", leads)
	frozen := again.Freeze(t)
	p.Await(t, isStale+` && document.querySelector("#live").textContent.startsWith("reconnecting…")`)
	t.Logf("the page says so %v after the node stood still", time.Since(frozen).Round(time.Millisecond))
	again.Thaw(t)
	after, took := again.AwaitStatus(t, patience, "leads anew", func(st procs.Status) error {
		if st.Token <= before.Token {
			return fmt.Errorf("token %d", st.Token)
		}
		return leads(st)
	})
	leadsAnew := fmt.Sprintf(`document.querySelector("#leader dd")?.textContent === "%d"`, after.Token)
	took += p.Await(t, isLive+" && !"+isStale+" && "+leadsAnew)
	t.Logf("and is live %v after it went on", took.Round(time.Millisecond))

	etcd.Kill(t)
	took = p.Await(t, isStale+` && document.querySelector("#banner").textContent.includes("cut off from etcd")`)
	t.Logf("the page says that it is cut off from etcd after %v", took.Round(time.Millisecond))
	require.NotEqual(t, "live", browser.Eval[string](t, p, `document.querySelector("#live").textContent`))
	etcd.Restart(t)
	t.Logf("and is live %v after etcd is back", p.Await(t, isLive+" && !"+isStale).Round(time.Millisecond))
	require.Empty(t, p.ForeignRequests(n.Origin()))
	for _, fault := range p.Faults() { // the browser also reports that the node does not answer
		require.Regexp(t, "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE", fault)
	}
}

package dashboard_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/needed"
)

// axeEnv names the file axe.min.js of the npm package axe-core.
const axeEnv = "GOVERSE_AXE"

// violation is one finding of axe.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// axe returns the serious and critical findings, one per line.
func axe(t *testing.T, p *browser.Page) (out []string) {
	t.Helper()
	for _, v := range browser.Eval[[]violation](t, p, `axe.run().then((r) => r.violations)`) {
		if v.Impact != "serious" && v.Impact != "critical" {
			t.Logf("%s: %s: %s", v.Impact, v.ID, v.Help)
			continue
		}
		for _, n := range v.Nodes {
			out = append(out, fmt.Sprintf("%s %s: %s\n\t%s", v.Impact, v.ID, n.HTML,
				strings.ReplaceAll(n.FailureSummary, "\n", " ")))
		}
	}
	return out
}

// axe-core finds no violation: with and without a token, with an open dialog, light and dark, on a desktop and on
// a phone.
func TestAxe(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	text, err := os.ReadFile(os.Getenv(axeEnv))
	if err != nil {
		needed.Missing(t, "axe", "this needs axe-core: npm install axe-core@4.14.1, and "+axeEnv+
			" names its axe.min.js: "+err.Error())
	}
	c := three(t)
	checkpoints := &processor.Memory{}
	unled(t, checkpoints)
	origin := serve(t, httpapi.New(c.Node(1).Cluster(), httpapi.Options{Checkpoints: checkpoints,
		Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}}))
	p := b.Open(t, desk, origin+"/")
	browser.Eval[*string](t, p, string(text)+";null")
	p.Await(t, count("#nodes tbody tr", 3)+" && "+count("#legend li", 3))

	browser.Eval[bool](t, p, `(document.body.insertAdjacentHTML("beforeend", "<button id=bad></button>"), true)`)
	require.NotEmpty(t, axe(t, p), "a button without a name is found")
	browser.Eval[bool](t, p, `(document.querySelector("#bad").remove(), true)`)
	browser.Eval[bool](t, p, do(`document.querySelectorAll("details").forEach((d) => d.open = true)`))
	for _, view := range []browser.View{desk, dark, phone} {
		p.SetView(t, view)
		require.Empty(t, axe(t, p), "%+v", view)
	}
	p.Await(t, withToken(token))
	p.Await(t, `document.querySelector("[data-act=drain]")`)
	p.SetView(t, dark)
	require.Empty(t, axe(t, p), "with buttons")
	p.Await(t, `(document.querySelector("[data-act=transfer]").click(), document.querySelector("#dialog").open)`)
	require.Empty(t, axe(t, p), "with a dialog")
	for _, dialog := range []string{"pause", "rewind", "unfence", "parked"} {
		p.Await(t, `!document.querySelector("#dialog").open || (document.querySelector("#dialog").close(), false)`)
		p.Click(t, "[data-act="+dialog+"]")
		p.Await(t, `document.querySelector("#dialog").open`)
		if dialog == "parked" {
			p.Await(t, `document.querySelector("#dialog [name=event]")`)
		}
		require.Empty(t, axe(t, p), dialog)
	}
}

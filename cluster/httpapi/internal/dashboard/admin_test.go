package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/browser"
)

const token = "0123456789abcdef-of-a-test"

// focus identifies the focused element: its id, or its action.
const focus = `document.activeElement.id || document.activeElement.dataset.act ||
	document.activeElement.dataset.do || ""`

// answered is true once the dialog shows success.
const answered = `document.querySelector("#dialog-outcome").className === "outcome good"`

// tabTo presses Tab until an element has the focus.
func tabTo(t *testing.T, p *browser.Page, what string) {
	t.Helper()
	for range 200 {
		if browser.Eval[string](t, p, focus) == what {
			return
		}
		p.Press(t, "\t")
	}
	require.Fail(t, "the focus does not get to "+what)
}

// With a token and by keyboard alone: enter the token, make the leader resign, and check that the outcome shown
// is true.
func TestResignByKeyboard(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	origin := serve(t, handler(c, 2))
	p := b.Open(t, desk, origin+"/")
	p.Await(t, count("#nodes tbody tr", 3))
	tabTo(t, p, "token")
	p.Press(t, token, "\r")
	p.Await(t, `document.querySelector("#token-outcome").textContent.includes("accepts")`)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#admin-state").textContent`), "token ops")
	require.NotContains(t, browser.Eval[string](t, p, `location.href + JSON.stringify(localStorage)`), token)

	tabTo(t, p, "resign")
	p.Press(t, "\r")
	p.Await(t, `document.querySelector("#dialog").open`)
	words := browser.Eval[string](t, p, `document.querySelector("#dialog").textContent`)
	require.Contains(t, words, c.Node(0).Address()+" gives the leadership up")
	require.Contains(t, words, c.Node(1).Address())
	p.Press(t, "\x1b")
	p.Await(t, `!document.querySelector("#dialog").open`)
	require.Equal(t, "resign", browser.Eval[string](t, p, focus), "the focus is back where it was")
	c.WaitLeaderIs(c.Node(0).Address())

	p.Press(t, "\r")
	p.Await(t, `document.activeElement.id === "dialog-confirm"`)
	p.Press(t, "\r")
	p.Await(t, answered) // there may be no leader for a moment
	p.Await(t, `document.querySelector("#leader .who")?.textContent.includes("`+c.Node(1).Address()+`")`)
	p.Await(t, `document.querySelector("#news").textContent === "`+c.Node(1).Address()+` leads now."`)
	p.Press(t, "\r") // closes it
	p.Await(t, `!document.querySelector("#dialog").open`)
	p.RequireClean(t, origin)

	// Transfer to a chosen node. Then forget the token, which removes the buttons.
	choose := `(document.querySelector("[data-act=transfer][data-to]").click(), true)`
	require.True(t, browser.Eval[bool](t, p, choose))
	to := browser.Eval[string](t, p, `document.querySelector("#choice").value`)
	p.Await(t, `(document.querySelector("#dialog-confirm").click(), true)`)
	p.Await(t, answered)
	p.Await(t, `document.querySelector("#leader .who")?.textContent.includes("`+to+`")`)
	require.True(t, browser.Eval[bool](t, p, `(document.querySelector("#dialog-cancel").click(), true)`))
	require.True(t, browser.Eval[bool](t, p, `(document.querySelector("[data-do=forget]").click(), true)`))
	p.Await(t, count("[data-act]", 0))
	require.Equal(t, "{}", browser.Eval[string](t, p, `JSON.stringify(sessionStorage)`))
}

// With a refused token, or on a node with admin calls off, the page reports that and has no buttons.
func TestNoAdmin(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	p := b.Open(t, desk, serve(t, handler(c, 1))+"/")
	p.Await(t, count("#nodes tbody tr", 3))
	p.Await(t, withToken("not-the-token-of-anybody"))
	p.Await(t, `document.querySelector("#token-outcome").textContent.includes("The node refused it")`)
	require.Equal(t, 0, browser.Eval[int](t, p, `document.querySelectorAll("[data-act]").length`))
	require.Empty(t, browser.Eval[string](t, p, `document.querySelector("#token").value`))

	p = b.Open(t, desk, serve(t, withoutAdmin(c, 1))+"/")
	p.Await(t, count("#nodes tbody tr", 3))
	p.Await(t, `document.querySelector("#token-form").hidden`)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#admin-state").textContent`),
		"--admin-token-file")
	require.Equal(t, 0, browser.Eval[int](t, p, `document.querySelectorAll("[data-act]").length`))
}

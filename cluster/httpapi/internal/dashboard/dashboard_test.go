package dashboard_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/httpapi/internal/dashboard"
	"github.com/goverse/goverse/internal/test/browser"
)

// mostBytes limits the size of the page.
const mostBytes = 150_000

// Without a browser: the page is small and complete, and its policy permits nothing else to run.
func TestPage(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	dashboard.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil))
	html, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	t.Logf("%d bytes", len(html))
	require.Less(t, len(html), mostBytes)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	for _, element := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(html, -1)
		require.Len(t, found, 1, element)
		require.Greater(t, len(found[0][1]), 1000)
		sum := sha256.Sum256([]byte(found[0][1]))
		require.Contains(t, policy, element+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	require.NotRegexp(t, `\sstyle="`, html, "the policy forbids style attributes")
	require.NotRegexp(t, `(?:href|src)="/`, html, "it works below a prefix")
	require.NotContains(t, html, "/*parts*/")
	script := html[strings.Index(html, "<script>"):]
	for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
		"new Function"} {
		require.NotContains(t, script, unsafe, "text of the cluster is text")
	}
	without := strings.NewReplacer("http://www.w3.org/2000/svg", "").Replace(html)
	require.NotRegexp(t, `https?://[a-z0-9]`, without, "nothing is asked for elsewhere")
}

// The page also works below a prefix. Neither there nor at the root does it load anything from elsewhere, or
// cause errors in the browser.
func TestPrefix(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	mux := http.NewServeMux()
	mux.Handle("/", handler(c, 0))
	mux.Handle("/ops/", http.StripPrefix("/ops", handler(c, 1)))
	origin := serve(t, mux)
	for _, path := range []string{"/", "/ops/"} {
		p := b.Open(t, desk, origin+path)
		p.Await(t, count("#nodes tbody tr", 3))
		p.Await(t, `document.querySelector("#leader .who").textContent.includes("`+c.Node(0).Address()+`")`)
		p.Await(t, `document.querySelector("#live").textContent === "live"`)
		p.Await(t, count("#legend li", 3))
		for _, tab := range []string{"locks", "effects", "processors", "elections", "all"} {
			p.Await(t, do(`document.querySelector("#tab-`+tab+`").click()`)+
				` && document.querySelector("#panel").textContent !== ""`)
		}
		p.Await(t, `document.querySelectorAll("#events .event").length > 3`)
		require.Equal(t, 0, browser.Eval[int](t, p, `document.querySelectorAll("[data-act]").length`),
			"without a token there is no admin button")
		p.RequireClean(t, origin)
	}
}

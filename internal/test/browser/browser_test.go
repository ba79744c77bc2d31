package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFaultsAreFound checks that each fault of a page is found: a request to another origin, a violation of the
// policy, an exception, and output of the console.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/strict" {
			w.Header().Set("Content-Security-Policy", "default-src 'none'")
		}
		_, _ = fmt.Fprintf(w, `<!doctype html><title>x</title><link rel="icon" href="data:,">%s`, r.FormValue("html"))
	}))
	t.Cleanup(s.Close)
	b := Start(t)
	finds := func(path, html string, found func(p *Page) bool) {
		t.Helper()
		p := b.Open(t, View{Width: 400, Height: 300}, s.URL+path+"?html="+url.QueryEscape(html))
		require.Eventually(t, func() bool { return found(p) }, patience, 10*time.Millisecond, "%s: %v", html, p.Faults())
	}
	says := func(text string) func(p *Page) bool {
		return func(p *Page) bool { return strings.Contains(strings.Join(p.Faults(), "\n"), text) }
	}
	finds("/", fmt.Sprintf(`<img alt="" src="%s/x.png">`, other.URL),
		func(p *Page) bool { return len(p.ForeignRequests(s.URL)) == 1 })
	finds("/", `<script>console.error("it is said")</script>`, says("it is said"))
	finds("/", `<script>throw new Error("it is thrown")</script>`, says("it is thrown"))
	finds("/strict", `<p style="color: red">x</p>`, says("Content Security Policy"))
	b.Open(t, View{Width: 400, Height: 300}, s.URL+"/?html=well").RequireClean(t, s.URL)
}

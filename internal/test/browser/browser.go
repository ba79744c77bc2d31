// Package browser runs Chromium for tests of pages: it starts without a window, is observed through its own
// protocol, and ends with the test.
//
//	b := browser.Start(t)
//	p := b.Open(t, browser.View{Width: 1280, Height: 900}, "http://"+address+"/")
//	p.Await(t, `document.querySelector("h1").textContent == "Goverse"`)
//	p.RequireClean(t, "http://"+address) // no request to elsewhere, nothing in the console
//
// The program internal/test/tools/browser controls it: it is in a module of its own, with the library that it needs.
//
// Where Chromium is not installed, a test is skipped, or fails if GOVERSE_REQUIRE names chromium.
//
// # What is not promised
//
// Other browsers may show a page differently.
package browser

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/browser/protocol"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/tool"
)

// Name is the name of Chromium in GOVERSE_REQUIRE.
const Name = "chromium"

// patience limits a wait for the page. It is long because the machine may be busy.
const patience = 20 * time.Second

// Browser is a process of Chromium with an empty profile.
type Browser struct{ driver *tool.Tool }

// Start starts a browser, which ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		needed.Missing(t, Name, "this needs a browser: apt-get install chromium")
	}
	b := &Browser{driver: tool.Start(t, "browser")}
	call[protocol.None](t, b, "Start", path)
	return b
}

// call calls a method of the program.
func call[R any](t testing.TB, b *Browser, method string, args any) (reply R) {
	t.Helper()
	require.NoError(t, b.driver.Call("Browser."+method, args, &reply))
	return reply
}

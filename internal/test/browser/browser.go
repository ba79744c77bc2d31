// Package browser runs Chromium for tests of pages: it starts without a window, is observed through its own
// protocol, and ends with the test.
//
//	b := browser.Start(t)
//	p := b.Open(t, browser.View{Width: 1280, Height: 900}, "http://"+address+"/")
//	p.Await(t, `document.querySelector("h1").textContent == "Goverse"`)
//	p.RequireClean(t, "http://"+address) // no request to elsewhere, nothing in the console
//
// Where Chromium is not installed, a test is skipped, or fails if GOVERSE_REQUIRE names chromium.
//
// # What is not promised
//
// Other browsers may show a page differently. If a test binary is killed, Chromium remains until it notices
// that no client is connected any more.
package browser

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/needed"
)

// Name is the name of Chromium in GOVERSE_REQUIRE.
const Name = "chromium"

// patience limits each step of a browser. It is long because the machine may be busy.
const patience = 20 * time.Second

// Browser is a process of Chromium with an empty profile.
type Browser struct{ ctx context.Context }

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
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(patience))
	ctx, end := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, closeIt := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		// First the browser is asked to close, then its process is awaited.
		_ = chromedp.Cancel(ctx) // it may have ended already
		closeIt()
		end()
		if c := chromedp.FromContext(ctx); c.Allocator != nil {
			c.Allocator.Wait()
		}
	})
	require.NoError(t, chromedp.Do(ctx), "start %s", path)
	return &Browser{ctx: ctx}
}

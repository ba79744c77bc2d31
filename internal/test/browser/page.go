package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// View describes the size and the look of a page.
type View struct {
	Width, Height int64
	Dark          bool
	Scale         float64 // device pixels per CSS pixel; 0 stands for 1
	Calm          bool    // the reader prefers reduced motion
}

// Page is one tab. Its methods must be called from one goroutine.
type Page struct {
	ctx context.Context

	mu       sync.Mutex
	requests []string // addresses, without data: URLs
	faults   []string // console errors and warnings, exceptions, policy violations
}

// Open opens an address in a new tab, which is closed when the test ends.
func (b *Browser) Open(t testing.TB, view View, address string) *Page {
	t.Helper()
	ctx, closeIt := chromedp.NewContext(b.ctx)
	p := &Page{ctx: ctx}
	var readers sync.WaitGroup
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it may be closed already
		closeIt()
		readers.Wait()
	})
	require.NoError(t, chromedp.Do(ctx), "open a tab") // without a deadline, which would apply to the tab itself
	listen(ctx, &readers, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.note(&p.requests, e.Request.URL)
		}
	})
	listen(ctx, &readers, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.note(&p.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	})
	listen(ctx, &readers, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said := "console." + e.Type.String()
			for _, arg := range e.Args {
				said += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
			p.note(&p.faults, said)
		}
	})
	listen(ctx, &readers, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		thrown := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			thrown += " " + e.ExceptionDetails.Exception.Description
		}
		p.note(&p.faults, "exception: "+thrown)
	})
	call(t, p, network.Enable, network.EnableParams{})
	call(t, p, log.Enable, cdp.Empty{})
	call(t, p, runtime.Enable, cdp.Empty{})
	p.View(t, view)
	p.Go(t, address)
	return p
}

// listen passes events to take until the tab closes.
func listen[E any](ctx context.Context, readers *sync.WaitGroup, event cdp.Event[E], take func(E)) {
	events := chromedp.Events(ctx, event)
	readers.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			take(e)
		}
	})
}

func (p *Page) note(where *[]string, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*where = append(*where, what)
}

func run[T any](t testing.TB, p *Page, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, action)
	require.NoError(t, err)
	return out
}

// call sends a command of the browser's protocol.
func call[P, R any](t testing.TB, p *Page, command cdp.Command[P, R], params P) R {
	t.Helper()
	return run(t, p, func(ctx context.Context, tab *chromedp.Target) (R, error) {
		return cdp.Call(ctx, tab, command, params)
	})
}

// Go navigates to another address.
func (p *Page) Go(t testing.TB, address string) {
	t.Helper()
	run(t, p, chromedp.Navigate(address))
}

// View changes the size and the look of the page.
func (p *Page) View(t testing.TB, v View) {
	t.Helper()
	scale := v.Scale
	if scale == 0 {
		scale = 1
	}
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.Calm {
		motion = "reduce"
	}
	call(t, p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width,
		Height: v.Height, DeviceScaleFactor: scale})
	call(t, p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
}

// Eval returns the value of a JavaScript expression. It awaits promises.
func Eval[T any](t testing.TB, p *Page, expression string) T {
	t.Helper()
	return run(t, p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Await waits until an expression is true, and returns the time that took.
func (p *Page) Await(t testing.TB, expression string) time.Duration {
	t.Helper()
	began := time.Now()
	for last := began.Add(patience); ; {
		if Eval[bool](t, p, "Boolean("+expression+")") {
			return time.Since(began)
		}
		if time.Now().After(last) {
			require.Fail(t, "never so: "+expression, "the page says:\n%s", Eval[string](t, p, "document.body.innerText"))
		}
		<-time.After(5 * time.Millisecond)
	}
}

// Press presses keys, one after the other, at the present focus: kb.Tab, kb.Enter, or text.
func (p *Page) Press(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		run(t, p, chromedp.KeyEvent(key))
	}
}

// Screenshot returns a PNG of the visible part of the page.
func (p *Page) Screenshot(t testing.TB) []byte {
	t.Helper()
	return call(t, p, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
}

// Elsewhere returns the requests that went to another origin than this one, such as "http://127.0.0.1:8080".
func (p *Page) Elsewhere(origin string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, address := range p.requests {
		if !strings.HasPrefix(address, origin+"/") {
			out = append(out, address)
		}
	}
	return out
}

// Faults returns the console's errors and warnings, exceptions, and policy violations.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.faults...)
}

// Clean fails the test if a request went to another origin, or if there are faults.
func (p *Page) Clean(t testing.TB, origin string) {
	t.Helper()
	require.Empty(t, p.Elsewhere(origin), "requests to elsewhere")
	require.Empty(t, p.Faults(), "the console")
}

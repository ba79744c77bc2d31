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
	ReducedMotion bool    // the reader prefers reduced motion
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
	listenToTab(ctx, &readers, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.addNote(&p.requests, e.Request.URL)
		}
	})
	listenToTab(ctx, &readers, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.addNote(&p.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	})
	listenToTab(ctx, &readers, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said := "console." + e.Type.String()
			for _, arg := range e.Args {
				said += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
			p.addNote(&p.faults, said)
		}
	})
	listenToTab(ctx, &readers, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		thrown := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			thrown += " " + e.ExceptionDetails.Exception.Description
		}
		p.addNote(&p.faults, "exception: "+thrown)
	})
	sendCommand(t, p, network.Enable, network.EnableParams{})
	sendCommand(t, p, log.Enable, cdp.Empty{})
	sendCommand(t, p, runtime.Enable, cdp.Empty{})
	p.SetView(t, view)
	p.Navigate(t, address)
	return p
}

// listenToTab passes events to take until the tab closes.
func listenToTab[E any](ctx context.Context, readers *sync.WaitGroup, event cdp.Event[E], take func(E)) {
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

func (p *Page) addNote(where *[]string, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*where = append(*where, what)
}

func runAction[T any](t testing.TB, p *Page, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, action)
	require.NoError(t, err)
	return out
}

// sendCommand sends a command of the browser's protocol.
func sendCommand[P, R any](t testing.TB, p *Page, command cdp.Command[P, R], params P) R {
	t.Helper()
	return runAction(t, p, func(ctx context.Context, tab *chromedp.Target) (R, error) {
		return cdp.Call(ctx, tab, command, params)
	})
}

// Navigate navigates to another address.
func (p *Page) Navigate(t testing.TB, address string) {
	t.Helper()
	runAction(t, p, chromedp.Navigate(address))
}

// SetView changes the size and the look of the page.
func (p *Page) SetView(t testing.TB, v View) {
	t.Helper()
	scale := v.Scale
	if scale == 0 {
		scale = 1
	}
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.ReducedMotion {
		motion = "reduce"
	}
	sendCommand(t, p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width,
		Height: v.Height, DeviceScaleFactor: scale})
	sendCommand(t, p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
}

// Eval returns the value of a JavaScript expression. It awaits promises.
func Eval[T any](t testing.TB, p *Page, expression string) T {
	t.Helper()
	return runAction(t, p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
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
		runAction(t, p, chromedp.KeyEvent(key))
	}
}

// Screenshot returns a PNG of the visible part of the page.
func (p *Page) Screenshot(t testing.TB) []byte {
	t.Helper()
	return sendCommand(t, p, page.CaptureScreenshot,
		page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
}

// ForeignRequests returns the requests that went to another origin than this one, such as "http://127.0.0.1:8080".
func (p *Page) ForeignRequests(origin string) []string {
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

// RequireClean fails the test if a request went to another origin, or if there are faults.
func (p *Page) RequireClean(t testing.TB, origin string) {
	t.Helper()
	require.Empty(t, p.ForeignRequests(origin), "requests to elsewhere")
	require.Empty(t, p.Faults(), "the console")
}

package browser

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/browser/protocol"
)

// View describes the size and the look of a page.
type View = protocol.View

// ArrowRight is a key for Press that stands for no character. The driver's library assigns its value.
const ArrowRight = "\u0303"

// Page is one tab. Its methods must be called from one goroutine.
type Page struct {
	t       testing.TB
	browser *Browser
	tab     protocol.Tab
}

// Open opens an address in a new tab, which is closed when the test ends.
func (b *Browser) Open(t testing.TB, view View, address string) *Page {
	t.Helper()
	p := &Page{t: t, browser: b, tab: call[protocol.Tab](t, b, "Open", view)}
	t.Cleanup(func() { call[protocol.None](t, b, "Close", p.tab) })
	p.Navigate(t, address)
	return p
}

// Navigate navigates to another address.
func (p *Page) Navigate(t testing.TB, address string) {
	t.Helper()
	call[protocol.None](t, p.browser, "Navigate", protocol.Navigate{Tab: p.tab, Address: address})
}

// SetView changes the size and the look of the page.
func (p *Page) SetView(t testing.TB, v View) {
	t.Helper()
	call[protocol.None](t, p.browser, "SetView", protocol.SetView{Tab: p.tab, View: v})
}

// Eval returns the value of a JavaScript expression. It awaits promises. A test fails if the value is null or
// undefined and T has no nil.
func Eval[T any](t testing.TB, p *Page, expression string) (value T) {
	t.Helper()
	text := call[protocol.Value](t, p.browser, "Eval", protocol.Eval{Tab: p.tab, Expression: expression}).JSON
	if string(text) == "null" {
		kinds := []reflect.Kind{reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface}
		require.Contains(t, kinds, reflect.TypeFor[T]().Kind(), "it is null or undefined: %s", expression)
	}
	require.NoError(t, json.Unmarshal(text, &value), "%s", expression)
	return value
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

// Press presses keys, one after the other, at the present focus: "\t", "\r", ArrowRight, or text.
func (p *Page) Press(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		call[protocol.None](t, p.browser, "Press", protocol.Press{Tab: p.tab, Keys: key})
	}
}

// Click waits until an element is shown, scrolls to it, and clicks on its middle with the mouse. The test fails if
// another element covers it.
func (p *Page) Click(t testing.TB, selector string) {
	t.Helper()
	element := fmt.Sprintf("document.querySelector(%q)", selector)
	p.Await(t, element+"?.checkVisibility()")
	at := Eval[struct{ X, Y float64 }](t, p, `(() => { const e = `+element+`; e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
		return e.contains(document.elementFromPoint(x, y)) ? { x, y } : { x: -1, y: -1 }; })()`)
	require.Positive(t, at.X, "%s is covered", selector)
	call[protocol.None](t, p.browser, "Click", protocol.Click{Tab: p.tab, X: at.X, Y: at.Y})
}

// Screenshot returns a PNG of the visible part of the page.
func (p *Page) Screenshot(t testing.TB) []byte {
	t.Helper()
	return call[protocol.Picture](t, p.browser, "Screenshot", p.tab).PNG
}

// ForeignRequests returns the requests that went to another origin than this one, such as "http://127.0.0.1:8080".
func (p *Page) ForeignRequests(origin string) (foreign []string) {
	p.t.Helper()
	for _, address := range p.observed().Requests {
		if !strings.HasPrefix(address, origin+"/") {
			foreign = append(foreign, address)
		}
	}
	return foreign
}

// Faults returns the console's errors and warnings, exceptions, and policy violations.
func (p *Page) Faults() []string {
	p.t.Helper()
	return p.observed().Faults
}

func (p *Page) observed() protocol.Observed {
	p.t.Helper()
	return call[protocol.Observed](p.t, p.browser, "Observed", p.tab)
}

// RequireClean fails the test if a request went to another origin, or if there are faults.
func (p *Page) RequireClean(t testing.TB, origin string) {
	t.Helper()
	require.Empty(t, p.ForeignRequests(origin), "requests to elsewhere")
	require.Empty(t, p.Faults(), "the console")
}

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/goverse/goverse/internal/test/browser/protocol"
)

// patience limits each step of a browser. It is long because the machine may be busy.
const patience = 20 * time.Second

// Browser is the service: one process of Chromium with its tabs. Its methods can be called concurrently for
// different tabs.
type Browser struct {
	ctx  context.Context
	stop func()

	mu   sync.Mutex
	last int
	tabs map[int]*tab
}

// Start starts Chromium, the program at a path. It must be called first, and once.
func (b *Browser) Start(path string, _ *protocol.None) error {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(patience))
	ctx, end := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, closeIt := chromedp.NewContext(ctx)
	b.ctx, b.stop = ctx, func() {
		// First the browser is asked to close, then its process is awaited.
		_ = chromedp.Cancel(ctx) // it may have ended already
		closeIt()
		end()
		if c := chromedp.FromContext(ctx); c.Allocator != nil {
			c.Allocator.Wait()
		}
	}
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

// end closes all tabs and ends Chromium.
func (b *Browser) end() {
	for _, tab := range b.tabs {
		tab.close()
	}
	if b.stop != nil {
		b.stop()
	}
}

// Open opens an empty tab.
func (b *Browser) Open(view protocol.View, reply *protocol.Tab) error {
	opened, err := openTab(b.ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	b.tabs[b.last] = opened
	*reply = protocol.Tab(b.last)
	return opened.setView(view)
}

func (b *Browser) tab(number protocol.Tab) (*tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tabs[int(number)]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("tab %d is not open", number)
}

// Close closes a tab.
func (b *Browser) Close(number protocol.Tab, _ *protocol.None) error {
	t, err := b.tab(number)
	if err != nil {
		return err
	}
	t.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tabs, int(number))
	return nil
}

// Navigate opens another address in a tab.
func (b *Browser) Navigate(args protocol.Navigate, _ *protocol.None) error {
	return b.act(args.Tab, func(t *tab) error {
		_, err := runAction(t, chromedp.Navigate(args.Address))
		return err
	})
}

// SetView changes the size and the look of a tab.
func (b *Browser) SetView(args protocol.SetView, _ *protocol.None) error {
	return b.act(args.Tab, func(t *tab) error { return t.setView(args.View) })
}

// Eval evaluates an expression.
func (b *Browser) Eval(args protocol.Eval, reply *protocol.Value) error {
	return b.act(args.Tab, func(t *tab) error {
		value, err := runAction(t, chromedp.Evaluate[[]byte](args.Expression, chromedp.EvalAwaitPromise))
		if len(value) == 0 {
			value = []byte("null")
		}
		reply.JSON = value
		return err
	})
}

// Press presses keys.
func (b *Browser) Press(args protocol.Press, _ *protocol.None) error {
	return b.act(args.Tab, func(t *tab) error {
		_, err := runAction(t, chromedp.KeyEvent(args.Keys))
		return err
	})
}

// Click clicks with the mouse.
func (b *Browser) Click(args protocol.Click, _ *protocol.None) error {
	return b.act(args.Tab, func(t *tab) error {
		_, err := runAction(t, chromedp.MouseClickXY(args.X, args.Y))
		return err
	})
}

// Screenshot returns a picture of the visible part of a page.
func (b *Browser) Screenshot(number protocol.Tab, reply *protocol.Picture) error {
	return b.act(number, func(t *tab) error {
		shot, err := sendCommand(t, page.CaptureScreenshot,
			page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		reply.PNG = shot.Data
		return err
	})
}

// Observed returns the requests and faults of a tab.
func (b *Browser) Observed(number protocol.Tab, reply *protocol.Observed) error {
	return b.act(number, func(t *tab) error {
		*reply = t.notes()
		return nil
	})
}

// act calls f with an open tab.
func (b *Browser) act(number protocol.Tab, f func(*tab) error) error {
	t, err := b.tab(number)
	if err != nil {
		return err
	}
	return f(t)
}

func runAction[T any](t *tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// sendCommand sends a command of the browser's protocol.
func sendCommand[P, R any](t *tab, command cdp.Command[P, R], params P) (R, error) {
	return runAction(t, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
}

// setView changes the size and the look of the page.
func (t *tab) setView(v protocol.View) error {
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
	if _, err := sendCommand(t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: v.Width, Height: v.Height, DeviceScaleFactor: scale}); err != nil {
		return err
	}
	_, err := sendCommand(t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: motion}}})
	return err
}

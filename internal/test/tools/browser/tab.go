package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/goverse/goverse/internal/test/browser/protocol"
)

// tab is an open tab, with the goroutines that observe it.
type tab struct {
	ctx     context.Context
	cancel  context.CancelFunc
	readers sync.WaitGroup

	mu       sync.Mutex
	observed protocol.Observed
}

// openTab opens an empty tab and observes it.
func openTab(ctx context.Context) (*tab, error) {
	t := &tab{}
	t.ctx, t.cancel = chromedp.NewContext(ctx)
	if err := chromedp.Do(t.ctx); err != nil { // without a deadline, which would apply to the tab itself
		t.cancel()
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	listenToTab(t, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if !strings.HasPrefix(e.Request.URL, "data:") {
			t.addNote(&t.observed.Requests, e.Request.URL)
		}
	})
	listenToTab(t, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.addFault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	})
	listenToTab(t, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said := ""
			for _, arg := range e.Args {
				said += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
			t.addFault("console.%s%s", e.Type.String(), said)
		}
	})
	listenToTab(t, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		thrown := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			thrown += " " + e.ExceptionDetails.Exception.Description
		}
		t.addFault("exception: %s", thrown)
	})
	_, err1 := sendCommand(t, network.Enable, network.EnableParams{})
	_, err2 := sendCommand(t, log.Enable, cdp.Empty{})
	_, err3 := sendCommand(t, runtime.Enable, cdp.Empty{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close closes the tab and waits for the goroutines that observe it.
func (t *tab) close() {
	_ = chromedp.Cancel(t.ctx) // it may be closed already
	t.cancel()
	t.readers.Wait()
}

// listenToTab passes events to take until the tab closes.
func listenToTab[E any](t *tab, event cdp.Event[E], take func(E)) {
	events := chromedp.Events(t.ctx, event)
	t.readers.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			take(e)
		}
	})
}

func (t *tab) addNote(where *[]string, note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*where = append(*where, note)
}

func (t *tab) addFault(format string, args ...any) {
	t.addNote(&t.observed.Faults, fmt.Sprintf(format, args...))
}

// notes returns a copy of the notes.
func (t *tab) notes() protocol.Observed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return protocol.Observed{Requests: slices.Clone(t.observed.Requests), Faults: slices.Clone(t.observed.Faults)}
}

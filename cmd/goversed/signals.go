package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// withSignals returns a context that the first SIGINT or SIGTERM ends, and one that
// the second ends. A third kills the process, as without us. release undoes it.
func withSignals(parent context.Context) (ctx, cut context.Context, release func()) {
	ctx, stop := context.WithCancel(parent)
	// Not below parent: its end asks for a graceful stop, too.
	cut, stopAtOnce := context.WithCancel(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	released := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer signal.Stop(signals)
		relay(signals, released, time.Now, stop, stopAtOnce)
	})
	return ctx, cut, func() {
		close(released)
		wg.Wait()
		stop()
		stopAtOnce()
	}
}

// relay calls first at the first signal and second at the second, and returns after
// that, or once released is closed.
func relay(signals <-chan os.Signal, released <-chan struct{}, now func() time.Time, first, second func()) {
	var asked time.Time // zero: not yet
	for {
		select {
		case <-signals:
		case <-released:
			return
		}
		switch at := now(); {
		case asked.IsZero():
			asked = at
			first()
		case at.Sub(asked) >= cli.SecondAfter:
			second()
			return
		}
	}
}

// reloadTimeout bounds the wait for a reload that is under way.
const reloadTimeout = time.Second

// onHangup calls reload at each SIGHUP, which then does not end the process, until it is released. Under nohup it does
// nothing: SIGHUP is ignored there, and stays so. The release waits for a reload that is under way, for a second at
// most: its file system may hang.
func onHangup(reload func()) (release func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	signals, released, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(ended)
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				reload()
			case <-released:
				return
			}
		}
	}()
	return func() {
		close(released)
		select {
		case <-ended:
		case <-time.After(reloadTimeout):
		}
	}
}

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/wait"
)

// withSignals returns a context that ends with the first SIGINT or SIGTERM, and one that ends with the second.
// A third signal kills the process, as by default. Release undoes the effect on signals.
func withSignals(parent context.Context) (ctx, cut context.Context, release func()) {
	ctx, stop := context.WithCancel(parent)
	// Not derived from parent, because the end of parent asks for a graceful stop, too.
	cut, stopAtOnce := context.WithCancel(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	released := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer signal.Stop(signals)
		relaySignals(signals, released, time.Now, stop, stopAtOnce)
	})
	return ctx, cut, func() {
		close(released)
		wg.Wait()
		stop()
		stopAtOnce()
	}
}

// relaySignals calls first at the first signal and second at the second, and then returns. It also returns when
// released is closed.
func relaySignals(signals <-chan os.Signal, released <-chan struct{}, now func() time.Time, first, second func()) {
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
		case at.Sub(asked) >= cli.SecondSignalAfter:
			second()
			return
		}
	}
}

// onHangup calls reload at each SIGHUP, which then does not end the process, until release is called. Under
// nohup SIGHUP stays ignored, and onHangup does nothing. Release waits at most a second for a reload in
// progress, because its file system may hang.
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
		wait.Join(ended, wait.JoinLimit)
	}
}

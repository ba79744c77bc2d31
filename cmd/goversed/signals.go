package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
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
		for _, end := range []context.CancelFunc{stop, stopAtOnce} {
			select {
			case <-signals:
				end()
			case <-released:
				return
			}
		}
	})
	return ctx, cut, func() {
		close(released)
		wg.Wait()
		stop()
		stopAtOnce()
	}
}

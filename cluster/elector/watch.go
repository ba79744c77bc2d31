package elector

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// watchBackoff determines the pauses before a watch that failed begins again.
var watchBackoff = backoff.Policy{First: time.Second, Last: 30 * time.Second}

// watchLease sends a hint whenever the store reports a change of the record, until ctx ends. It returns at once if the
// store cannot be watched.
func (e *Elector) watchLease(ctx context.Context, hints wait.Signal) {
	store, can := e.cfg.LeaseStore.(LeaseWatcher)
	if !can {
		return
	}
	var failures atomic.Int64 // in a row
	for ctx.Err() == nil {
		err := callback.Run(func() error {
			return store.Watch(ctx, func() {
				if failures.Swap(0) > 0 {
					e.log.Info("the lease store is watched again")
				}
				hints.Send()
			})
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		inRow := failures.Add(1)
		if inRow == 1 {
			e.log.Warn("the lease store cannot be watched, reading it every RetryPeriod until it can",
				"error", logtext.OneLine(err))
		}
		wait.For(ctx, watchBackoff.Delay(int(inRow), rand.Float64()))
	}
}

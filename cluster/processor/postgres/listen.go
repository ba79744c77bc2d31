package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// listenBackoff is the pause before Listen tries again.
var listenBackoff = backoff.Policy{First: time.Second, Last: time.Second}

// Listen makes the processors read new events as soon as the transaction that wrote them commits, until ctx
// ends. Without a Channel it returns at once. Run it once beside the processors. While it has no connection it
// retries, and the processors poll. So nothing is missed, and its errors are only logged.
//
// A connection that breaks silently is noticed within 5 s and RequestTimeout. Through a proxy that pools
// transactions, no notifications arrive at all.
func (s *Source) Listen(ctx context.Context) {
	if s.cfg.Channel == "" {
		return
	}
	log, lost := s.cfg.Logger.With("channel", s.cfg.Channel), false
	listener := pg.Subscription{Channel: s.cfg.Channel, Timeout: s.cfg.RequestTimeout,
		Begun: func() {
			if lost {
				log.Info("LISTEN restored")
			}
			lost = false
			s.Notify() // events may have come before
		},
		Notify: func(string) { s.Notify() },
	}
	for ctx.Err() == nil {
		err := listener.Listen(ctx, s.cfg.DB)
		if !lost && ctx.Err() == nil {
			log.Warn("LISTEN failed, polling the table until it is restored", "error", logtext.OneLine(err))
			lost = true
		}
		wait.For(ctx, listenBackoff.Delay(1, rand.Float64()))
	}
}

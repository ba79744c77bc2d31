package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// listenBackoff is the pause before Listen tries again.
var listenBackoff = backoff.Policy{First: time.Second, Last: time.Second}

// primaryCheckAfter is the time without a notification after which the server is asked whether it still accepts
// writes: a server that was the primary sends no notifications.
const primaryCheckAfter = 5 * time.Second

// checkPrimary returns an error unless the connection's server answers and accepts writes.
func (s *Source) checkPrimary(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	var readOnly bool
	err := conn.QueryRow(ctx, "select current_setting('transaction_read_only')::bool").Scan(&readOnly)
	if err == nil && readOnly {
		return errors.New("the server takes no writes, so no program notifies there: it is a replica, or was the primary")
	}
	return err
}

// Listen makes the processors read new events as soon as the transaction that wrote them commits, until ctx
// ends. Without a Channel it returns at once. Run it once beside the processors. While it has no connection it
// retries, and the processors poll. So nothing is missed, and its errors are only logged.
//
// A connection that breaks silently is noticed when TCP gives it up. Through a proxy that pools transactions,
// no notifications arrive at all.
func (s *Source) Listen(ctx context.Context) {
	if s.cfg.Channel == "" {
		return
	}
	log, lost := s.cfg.Logger.With("channel", s.cfg.Channel), false
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, func() {
			if lost {
				log.Info("LISTEN restored")
			}
			lost = false
		})
		if !lost && ctx.Err() == nil {
			log.Warn("LISTEN failed, polling the table until it is restored", "error", err)
			lost = true
		}
		wait.For(ctx, listenBackoff.Delay(1, rand.Float64()))
	}
}

// listenOnce listens on one connection until that fails or ctx ends.
func (s *Source) listenOnce(ctx context.Context, listening func()) error {
	starting, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	pooled, err := s.cfg.DB.Acquire(starting)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // the pool opens another one
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = conn.Close(ctx) // it may have broken
	}()
	if _, err := conn.Exec(starting, "listen "+quoteName(s.cfg.Channel)); err != nil {
		return err
	}
	listening()
	for {
		s.Notify() // also at the start: events may have come before
		waiting, cancel := context.WithTimeout(ctx, primaryCheckAfter)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() == nil && waiting.Err() != nil && !conn.IsClosed():
			if err := s.checkPrimary(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

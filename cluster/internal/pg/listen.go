package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Acquirer is a pool of connections.
type Acquirer interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// Subscription describes the notifications that a caller of [Subscription.Listen] receives.
type Subscription struct {
	Channel string
	// Timeout limits the time until Listen listens, and each check of the server.
	Timeout time.Duration
	// Begun is called when Listen listens: every notification from then on arrives.
	Begun func()
	// Notify is called with the payload of each notification.
	Notify func(payload string)
}

const (
	// primaryCheckAfter is the time without a notification after which the server is asked whether it still accepts
	// writes: a server that was the primary sends no notifications.
	primaryCheckAfter = 5 * time.Second
	// closeTimeout limits the wait for a connection to be closed in order.
	closeTimeout = 2 * time.Second
)

// Listen takes a connection out of the pool for good, which the pool replaces, and listens on it until ctx ends or
// the connection fails. It then closes the connection and returns the reason. All calls of Begun and Notify have
// returned by then.
//
// A connection that breaks silently is noticed within primaryCheckAfter + Timeout. Through a proxy that pools
// transactions, no notifications arrive, and that is not noticed.
func (s Subscription) Listen(ctx context.Context, pool Acquirer) error {
	starting, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	pooled, err := pool.Acquire(starting)
	if err != nil {
		return err
	}
	conn := pooled.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx) // it may have broken
	}()
	if _, err := conn.Exec(starting, "listen "+pgx.Identifier{s.Channel}.Sanitize()); err != nil {
		return err
	}
	s.Begun()
	for {
		waiting, cancel := context.WithTimeout(ctx, primaryCheckAfter)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			s.Notify(n.Payload)
		case ctx.Err() == nil && waiting.Err() != nil && !conn.IsClosed():
			if err := s.checkPrimary(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// checkPrimary returns an error unless the connection's server answers and accepts writes.
func (s Subscription) checkPrimary(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var readOnly bool
	err := conn.QueryRow(ctx, "select current_setting('transaction_read_only')::bool").Scan(&readOnly)
	if err == nil && readOnly {
		return errors.New("the server takes no writes, so no program notifies there: it is a replica, or was the primary")
	}
	return err
}

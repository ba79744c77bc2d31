package claims

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Schema returns the name of the schema that has the tables.
func (k *Keeper) Schema() string { return k.cfg.Schema }

// FenceSQL returns a query that finds and locks the grant's row, as LockRow does, for a larger statement.
func (c *Claim) FenceSQL() (sql string, args []any) { return c.s.k.sql.fence, []any{c.s.id, c.seq} }

// Connect opens another connection with the settings of the session's, for use by the caller, which closes it. It
// blocks until PostgreSQL has answered, for RequestTimeout at most, or ctx ends.
func (k *Keeper) Connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.Conn, nil
}

// Deadline returns the deadline of the sessions.
func (k *Keeper) Deadline() time.Duration { return k.cfg.Deadline }

// RequestTimeout limits a request, in case its connection has broken silently.
func (k *Keeper) RequestTimeout() time.Duration { return k.cfg.requestTimeout() }

// WatchCurrent returns the present session, or nil, and a channel that is closed when another one takes its place.
func (k *Keeper) WatchCurrent() (s *Session, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.changed
}

// ID returns the session's number.
func (s *Session) ID() int64 { return s.id }

// Context returns a context that ends with the session. Its cause is a session.LostError or lifecycle.ErrStopped.
func (s *Session) Context() context.Context { return s.ctx }

// Renewal returns the time since the last confirmed heartbeat was sent, and the time left until the deadline.
func (s *Session) Renewal() (ago, left time.Duration) {
	period, now := s.period.Load(), s.k.cfg.Clock()
	return max(period.RenewedAt().Until(now), 0), max(now.Until(period.EndsAt()), 0)
}

package pgsession

import (
	"context"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// OpenWithClock is Open with another clock.
func OpenWithClock(ctx context.Context, cfg Config, clock func() deadline.Instant) (*Session, error) {
	in := cfg.internal()
	in.Clock = clock
	k, err := claims.Open(ctx, in)
	if err != nil {
		return nil, err
	}
	return &Session{k}, nil
}

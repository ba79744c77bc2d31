package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/automation"
)

// Count implements [automation.Counter]. It counts up to 10,000 items that are due.
func (s *Source[I]) Count(ctx context.Context, name string) (c automation.Counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pg.QueryRow(ctx, s.sql.count, name).Scan(&c.Due, &c.Waiting, &c.Parked)
	return c, withHint(err)
}

// ParkedItem is an item that is not executed again.
type ParkedItem struct {
	Key      string    `json:"key"`
	Error    string    `json:"error"` // of the last attempt
	Attempts int       `json:"attempts"`
	Time     time.Time `json:"time"` // when it was parked, by the database's clock
}

// ErrNotFound is returned if an automation has no failure of an item.
var ErrNotFound = errors.New("the automation knows no failure of that item")

// Parked returns the parked items of the automation of that name, at most limit, oldest first. It blocks until
// PostgreSQL has answered or ctx ends.
func (s *Source[I]) Parked(ctx context.Context, name string, limit int) ([]ParkedItem, error) {
	rows, err := s.db.Query(ctx, s.sql.parked, name, limit)
	if err != nil {
		return nil, fmt.Errorf("list the parked items of automation %q: %w", name, withHint(err))
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ParkedItem])
	if err != nil {
		return nil, fmt.Errorf("list the parked items of automation %q: %w", name, withHint(err))
	}
	return all, nil
}

// Retry forgets the failures of an item, so that it is due again at once. The error matches ErrNotFound if there are
// none. It blocks until PostgreSQL has answered or ctx ends.
func (s *Source[I]) Retry(ctx context.Context, name, key string) error {
	tag, err := s.db.Exec(ctx, s.sql.forget, name, key)
	switch {
	case err != nil:
		return fmt.Errorf("retry the item %q of automation %q: %w", key, name, withHint(err))
	case tag.RowsAffected() == 0:
		return fmt.Errorf("item %q of automation %q: %w", key, name, ErrNotFound)
	}
	return nil
}

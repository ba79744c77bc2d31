package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
)

var (
	_ processor.Checkpoint = (*Checkpoint)(nil)
	_ processor.Manager    = (*Checkpoint)(nil)
)

// Report implements [processor.Checkpoint], with one statement.
func (c *Checkpoint) Report(ctx context.Context, name string, r processor.Report) (m processor.Mark, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return processor.Mark{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	m, err = scanMark(c.pg.WriteRow(ctx, c.sql.report, name, r.Token, string(text)))
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return processor.Mark{}, fmt.Errorf("publish the report of processor %q: %w", name, withHint(err))
	case m.Token > r.Token:
		return processor.Mark{}, fmt.Errorf("processor %q, token %d, stored %d: %w", name, r.Token, m.Token,
			processor.ErrFenced)
	case m.Token < r.Token:
		return processor.Mark{}, fmt.Errorf("processor %q: %w", name, processor.ErrMoved)
	}
	return m, nil
}

// scanMark scans the columns of a mark with the requests.
func scanMark(row pgx.Row) (m processor.Mark, err error) {
	err = row.Scan(&m.Position, &m.Token, &m.Version, &m.Claim, &m.Replay, &m.Paused, &m.Request, &m.Retry)
	return m, err
}

// Look implements [processor.Manager]. It blocks until PostgreSQL has answered or ctx ends, and has no time-out of its
// own, as all methods of the Manager.
func (c *Checkpoint) Look(ctx context.Context, name string) (processor.Standing, error) {
	found, err := c.readStandings(ctx, c.sql.look, name)
	switch {
	case err != nil:
		return processor.Standing{}, err
	case len(found) == 0:
		return processor.Standing{}, fmt.Errorf("processor %q: %w", name, processor.ErrUnknown)
	}
	return found[0], nil
}

// List implements [processor.Manager], in PostgreSQL's order of the names.
func (c *Checkpoint) List(ctx context.Context, q processor.Query) (found []processor.Standing, more bool, err error) {
	limit := q.Number()
	found, err = c.readStandings(ctx, c.sql.list, q.After, limit+1)
	if more = len(found) > limit; more {
		found = found[:limit]
	}
	return found, more, err
}

func (c *Checkpoint) readStandings(ctx context.Context, sql string, args ...any) ([]processor.Standing, error) {
	rows, err := c.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the processors: %w", withHint(pg.WithRemedy(err)))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s processor.Standing, err error) {
		var report string
		if err := row.Scan(&s.Name, &s.Position, &s.Token, &s.Claim, &s.Replay, &s.Pause.Paused, &s.Pause.Reason,
			&s.Pause.By, &s.Pause.At, &s.Pause.Number, &report, &s.Parked); err != nil {
			return s, err
		}
		if s.Pause.Number == 0 {
			s.Pause = processor.PauseRequest{}
		}
		if report == "" {
			return s, nil
		}
		s.Report = &processor.Report{}
		if err := json.Unmarshal([]byte(report), s.Report); err != nil {
			return s, fmt.Errorf("the report of processor %q cannot be read: %w", s.Name, err)
		}
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the processors: %w", withHint(pg.WithRemedy(err)))
	}
	return found, nil
}

// RequestPause implements [processor.Manager].
func (c *Checkpoint) RequestPause(ctx context.Context, name string, r processor.PauseRequest) error {
	r = r.Normalize()
	return c.change(ctx, "store the request to pause or resume", name, c.sql.requestPause, name, r.Paused, r.Reason, r.By,
		r.At)
}

// Rewind implements [processor.Manager]. It waits for a transaction that is about to commit.
func (c *Checkpoint) Rewind(ctx context.Context, name string, to processor.Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	return c.change(ctx, "rewind", name, c.sql.rewind, name, to)
}

// Unfence implements [processor.Manager].
func (c *Checkpoint) Unfence(ctx context.Context, name string) error {
	return c.change(ctx, "unfence the checkpoint of", name, c.sql.unfence, name)
}

// Forget implements [processor.Manager].
func (c *Checkpoint) Forget(ctx context.Context, name string, at processor.Position) error {
	return c.change(ctx, "forget a parked event of", name, c.sql.forget, name, at)
}

// change executes a statement of an operator.
func (c *Checkpoint) change(ctx context.Context, what, name, sql string, args ...any) error {
	if _, err := c.db.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s processor %q: %w", what, name, withHint(pg.WithRemedy(err)))
	}
	return nil
}

// RequestRetry implements [processor.Manager].
func (c *Checkpoint) RequestRetry(ctx context.Context, name string, at processor.Position) error {
	if err := at.Validate(); err != nil {
		return fmt.Errorf("retry of processor %q: %w", name, err)
	}
	tag, err := c.db.Exec(ctx, c.sql.requestRetry, name, at)
	switch {
	case err != nil:
		return fmt.Errorf("request the retry of processor %q at %q: %w", name, at, withHint(pg.WithRemedy(err)))
	case tag.RowsAffected() == 0:
		return notParkedError(name, at)
	}
	return nil
}

func notParkedError(name string, at processor.Position) error {
	return fmt.Errorf("processor %q, position %q: %w", name, at, processor.ErrNotParked)
}

// Parked implements [processor.Manager].
func (c *Checkpoint) Parked(ctx context.Context, name string) ([]processor.Parked, error) {
	rows, err := c.db.Query(ctx, c.sql.parked, name, processor.MaxParked)
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, withHint(pg.WithRemedy(err)))
	}
	parked, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (processor.Parked, error) { return scanParked(row) })
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, withHint(pg.WithRemedy(err)))
	}
	return parked, nil
}

// ParkedEvent implements [processor.Checkpoint].
func (c *Checkpoint) ParkedEvent(ctx context.Context, name string, at processor.Position) (processor.Parked, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	p, err := scanParked(c.pg.QueryRow(ctx, c.sql.parkedEvent, name, at))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return processor.Parked{}, notParkedError(name, at)
	case err != nil:
		return processor.Parked{}, fmt.Errorf("read the parked event of processor %q at %q: %w", name, at, withHint(err))
	}
	return p, nil
}

// scanParked scans the columns of a parked event.
func scanParked(row pgx.Row) (p processor.Parked, err error) {
	err = row.Scan(&p.Position, &p.After, &p.Error, &p.Attempts, &p.Token, &p.Time, &p.Retry)
	return p, err
}

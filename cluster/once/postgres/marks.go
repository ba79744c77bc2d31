package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// requestTimeout limits each request.
const requestTimeout = 5 * time.Second

// confirmRetry are the pauses after failed writes of a mark.
var confirmRetry = backoff.Policy{First: 20 * time.Millisecond, Last: 250 * time.Millisecond}

// readMark reads an effect's mark; its State is "" if there is none.
func (e *Effects) readMark(ctx context.Context, name string) (m once.Standing, err error) {
	brief, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err = scanMark(e.db.QueryRow(brief, e.sql.read, claims.EscapeName(name)))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return once.Standing{}, nil
	case err != nil && ctx.Err() != nil:
		return once.Standing{}, fmt.Errorf("read the mark of effect %q: %w", name, context.Cause(ctx))
	case err != nil && brief.Err() != nil: // not the caller's context
		return once.Standing{}, fmt.Errorf("read the mark of effect %q: PostgreSQL did not answer within %v: %w", name,
			requestTimeout, err)
	case err != nil:
		return once.Standing{}, fmt.Errorf("read the mark of effect %q: %w", name, withHint(err))
	}
	return m, nil
}

// readConfirmed reads an effect's mark until PostgreSQL answers, refuses it for good, or ctx ends.
func (e *Effects) readConfirmed(ctx context.Context, name string) (once.Standing, error) {
	for retry := (backoff.Backoff{Policy: confirmRetry}); ; {
		m, err := e.readMark(ctx, name)
		if err == nil || refusedForGood(err) || !wait.For(ctx, retry.Next()) {
			return m, err
		}
	}
}

// scanMark returns the mark in a row. A running attempt without its claim is unknown.
func scanMark(row pgx.Row) (m once.Standing, err error) {
	var held bool
	err = row.Scan(&m.Name, &m.State, &m.Attempt, &m.Token, &m.By, &m.At, &m.Value, &m.Dropped, &m.Error, &m.Resolved,
		&m.Retention, &held)
	if err != nil {
		return once.Standing{}, err
	}
	m.Name, m.At = claims.UnescapeName(m.Name), m.At.UTC()
	if len(m.Value) == 0 {
		m.Value = nil
	}
	if m.State == once.Running && !held {
		m.State = once.Unknown
	}
	return m, nil
}

// resultOf returns the result of an effect that took place.
func resultOf(m once.Standing) (once.Result, error) {
	r := once.Result{Value: m.Value, Attempt: m.Attempt, Token: m.Token}
	if m.Dropped > 0 {
		return r, fmt.Errorf("effect %q took place and returned %d bytes: %w", m.Name, m.Dropped, once.ErrValueTooLong)
	}
	return r, nil
}

func unknownError(m once.Standing, err error) error {
	return &once.UnknownError{Name: m.Name, Attempt: m.Attempt, Token: m.Token, By: m.By, Err: err}
}

// writeConfirmed executes a statement of a mark, which a claim guards, until it is answered, PostgreSQL refuses it
// for good, or ctx ends. wrote reports whether it wrote something, and is false if an earlier execution did and
// the answer was lost. attempt is the attempt's number in what it wrote.
func (e *Effects) writeConfirmed(ctx context.Context, c *claims.Claim, name, sql string,
	args ...any) (attempt int, wrote bool, err error) {
	sql, args = fenced(c, sql, append([]any{claims.EscapeName(name)}, args...)...)
	for retry := (backoff.Backoff{Policy: confirmRetry}); ; {
		brief, cancel := context.WithTimeout(ctx, requestTimeout)
		err := e.db.WriteRow(brief, sql, args...).Scan(&attempt)
		cancel()
		switch {
		case err == nil:
			return attempt, true, nil
		case errors.Is(err, pgx.ErrNoRows):
			return 0, false, nil
		case refusedForGood(err) || !wait.For(ctx, retry.Next()):
			if ctx.Err() != nil {
				err = errors.Join(err, context.Cause(ctx))
			}
			return 0, false, fmt.Errorf("write the mark of effect %q: %w", name, withHint(err))
		}
	}
}

// refusedForGood reports whether the same statement would be refused again. A pool that has led to a server without
// writes three times does so for good.
func refusedForGood(err error) bool { return pg.RefusedForGood(err) || pg.RefusedReadOnly(err) }

// withHint adds the remedy if the table is missing or a pooler interferes.
func withHint(err error) error {
	if pg.CodeOf(err) == pg.CodeNoTable {
		return fmt.Errorf("%w; make the table with Effects.CreateTable", err)
	}
	return pg.WithRemedy(err)
}

// maxError limits the text of an error that is kept, in bytes.
const maxError = 1024

// Every expireEvery-th outcome that a process records deletes up to expireBatch expired marks, and so does the first.
// That is more than are added in the meantime.
const (
	expireEvery = 16
	expireBatch = 64
)

// deleteDue reports whether this outcome deletes expired marks.
func (e *Effects) deleteDue() bool { return e.outcomes.Add(1)%expireEvery == 1 }

// deleteExpired deletes some expired marks. What fails is done by a later call.
func (e *Effects) deleteExpired(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_ = e.db.Write(ctx, func(q pg.Querier) error {
		_, err := q.Exec(ctx, e.sql.deleteExpired)
		return err
	})
}

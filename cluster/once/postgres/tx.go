package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/state"
)

// rollbackTimeout limits the return to a savepoint, because its caller may be gone.
const rollbackTimeout = 2 * time.Second

// OnceTx runs fn as a part of the caller's transaction, unless the effect of that name already took place. In that
// case it returns the value that fn returned then, and Ran is false. fn's writes through its tx and the effect's mark
// are committed together or not at all, so the outcome is never unknown. If the answer to the commit is lost, call
// OnceTx again in another transaction: it finds out.
//
// tx must be in the database and on the server that has the session. fn runs within a savepoint, and must neither
// commit nor roll back. If fn fails, its writes are undone and its error is returned as it is; the transaction may go
// on. No mark is left then, and none if the transaction is rolled back: the next call runs fn.
//
// OnceTx waits while another transaction runs the same effect, until that one has ended; two transactions that wait
// for each other are a deadlock (40P01), of which PostgreSQL fails one. So call OnceTx for several effects in the
// order of their names. It does not wait for an attempt by Once, which may take long: the error is [ErrRunning] while
// one runs, and a once.UnknownError if one did not record its outcome. Then roll back.
//
// With isolation level read committed, the caller that waited finds the result. With repeatable read or serializable,
// PostgreSQL fails it (40001) if the other transaction was committed after this one's first statement; run the whole
// transaction again, as with each failure of serialization.
//
// Other errors are an error if fn is nil, once.ErrBadName, once.ErrValueTooLong with the result if the value is too
// long to be stored (the effect takes place if the transaction is committed), and PostgreSQL's, after which the
// transaction must be rolled back. OnceTx needs neither a valid session nor Config.DB. It uses tx, so only one
// goroutine at a time may call it with tx.
func (e *Effects) OnceTx(ctx context.Context, tx pgx.Tx, name string,
	fn func(ctx context.Context, tx pgx.Tx) ([]byte, error)) (once.Result, error) {
	switch err := state.CheckName("effect", name); {
	case err != nil:
		return once.Result{}, err
	case fn == nil:
		return once.Result{}, errNilFunction(name)
	}
	inner, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return once.Result{}, inTx(name, err)
	}
	defer func() { // no effect after the commit; otherwise it also releases the mark's row
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = inner.Rollback(ctx)
	}()
	m, began, err := e.beginTx(ctx, inner, name)
	if err != nil {
		return once.Result{}, inTx(name, err)
	}
	if !began {
		switch m.State {
		case once.Done:
			return resultOf(m)
		case once.Running:
			return once.Result{}, inTx(name, ErrRunning)
		}
		return once.Result{}, unknownError(m, nil)
	}
	value, err := fn(ctx, inner)
	if err != nil {
		return once.Result{}, err
	}
	m.Value = value
	if len(value) > once.MaxValue {
		m.Value, m.Dropped = nil, len(value)
	}
	if err := e.recordTx(ctx, inner, m); err != nil {
		return once.Result{}, inTx(name, err)
	}
	r, err := resultOf(m)
	r.Value, r.Ran = value, true
	return r, err
}

func inTx(name string, err error) error {
	return fmt.Errorf("effect %q, in a transaction: %w", name, withHint(err))
}

// beginTx writes the mark, which locks it. If it could not, began is false and m is the mark that stands.
func (e *Effects) beginTx(ctx context.Context, tx pgx.Tx, name string) (m once.Standing, began bool, err error) {
	for {
		m = once.Standing{Name: name, State: once.Done, By: e.owner}
		err = tx.QueryRow(ctx, e.sql.beginTx, claims.EscapeName(name), e.owner, e.cfg.Retention).Scan(&m.Attempt, &m.Token)
		if !errors.Is(err, pgx.ErrNoRows) {
			return m, err == nil, err
		}
		m, err = scanMark(tx.QueryRow(ctx, e.sql.read, claims.EscapeName(name)))
		switch {
		case err == nil && m.State != once.Failed:
			return m, false, nil
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return m, false, err
		} // it expired between the two statements
	}
}

// recordTx writes the value into the mark, and ends the savepoint.
func (e *Effects) recordTx(ctx context.Context, tx pgx.Tx, m once.Standing) error {
	value := m.Value
	if value == nil {
		value = []byte{}
	}
	if _, err := tx.Exec(ctx, e.sql.recordTx, claims.EscapeName(m.Name), value, m.Dropped); err != nil {
		return err
	}
	if e.deleteDue() {
		if _, err := tx.Exec(ctx, e.sql.deleteExpired); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

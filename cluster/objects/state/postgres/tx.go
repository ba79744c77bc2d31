package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/objects/state"
)

// rollbackTimeout is for a rollback, whose caller may be gone.
const rollbackTimeout = 2 * time.Second

// InTx runs fn in a transaction and commits it if fn returns nil: what is written there through tx, and what
// of s is saved there (s.Save, s.Delete, state.Do) with fn's ctx, takes effect together or not at all.
//
//	err := store.InTx(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "insert into payments …"); err != nil {
//			return err
//		}
//		s.Value().Paid += amount
//		return s.Save(ctx)
//	})
//
// fn neither commits nor rolls back. If fn or the commit fails, or fn panics, s and its value are as before; if
// the commit's outcome is not known (state.ErrOutcomeUnknown), s is stale, too. The error is fn's as it is, or
// one of package state's. The row of s is locked from the save to the end, so save last; a process that stands still
// loses it after Config.IdleTimeout. InTx blocks as fn does, and up to Config.RequestTimeout for the beginning and for
// the commit. It is a use of s.
func (s *Store) InTx(ctx context.Context, m state.Member, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := s.start(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w: %w", state.ErrUnavailable, err)
	}
	inside, end := s.withTx(ctx, tx)
	outcome := state.RolledBack
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // nothing, after a commit; or the connection is closed
		end(outcome)
	}()
	if err := m.Join(inside); err != nil {
		return err
	}
	if err := fn(inside, tx); err != nil {
		_ = s.db.Ended(tx, err)
		return err
	}
	outcome, err = s.commit(ctx, tx)
	return err
}

func (s *Store) start(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.db.Begin(ctx, s.begin)
}

func (s *Store) commit(ctx context.Context, tx pgx.Tx) (state.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	err := s.db.Ended(tx, tx.Commit(ctx))
	switch {
	case err == nil:
		return state.Committed, nil
	case errors.Is(err, pgx.ErrTxCommitRollback), notDone(err):
		return state.RolledBack, fmt.Errorf("commit a transaction: %w: %w", state.ErrUnavailable, err)
	}
	return state.Unknown, fmt.Errorf("commit a transaction: %w: %w", state.ErrOutcomeUnknown, err)
}

type txKey struct{ store *Store }

// WithTx is for a transaction that the caller has begun, in the same database, and ends itself: saves with the
// returned context are part of it. When it has ended, call end with the error of tx.Commit, or with any other
// one if it was rolled back: States that were saved are stale then, until they are reloaded, and their values
// as before. Until end is called they can be used with that context alone. Prefer [Store.InTx], which knows
// more of how it ended, and bounds how long a process that stands still keeps its locks.
func (s *Store) WithTx(ctx context.Context, tx pgx.Tx) (inside context.Context, end func(commit error)) {
	inside, ended := s.withTx(ctx, tx)
	return inside, func(err error) {
		if err == nil {
			ended(state.Committed)
			return
		}
		ended(state.Unknown)
	}
}

func (s *Store) withTx(ctx context.Context, tx pgx.Tx) (context.Context, func(state.Outcome)) {
	return state.InTransaction(context.WithValue(ctx, txKey{s}, tx))
}

// tx is the store's transaction in that context, or nil.
func (s *Store) tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{s}).(pgx.Tx)
	return tx
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// in is where to ask.
func (s *Store) in(ctx context.Context) querier {
	if tx := s.tx(ctx); tx != nil {
		return tx
	}
	return s.db
}

// lost says what became of a save that failed.
func lost(err error) error {
	if notDone(err) {
		return fmt.Errorf("%w: %w", state.ErrUnavailable, hinted(err))
	}
	return fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, pg.Explain(err))
}

// notDone: PostgreSQL has refused it, or was not asked. It ends a session with an error that is FATAL: then a
// commit may have come before.
func notDone(err error) bool {
	if pgconn.SafeToRetry(err) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pg.AcquireError](err); ok {
		return true
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.SeverityUnlocalized != "ERROR" {
		return false
	}
	return refused.Code != pg.CompletionUnknown && refused.Code[:2] != "08" // of the connection
}

// transient: another one was in the way.
func transient(err error) bool {
	c := pg.CodeOf(err)
	return c == pg.NotSerializing || c == pg.Deadlock
}

// hinted says what to do where there are no tables, or a pooler gets in the way.
func hinted(err error) error {
	if pg.CodeOf(err) == pg.NoTable {
		return fmt.Errorf("%w; make the tables with CreateTables", err)
	}
	return pg.Explain(err)
}

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

// rollbackTimeout limits a rollback, because its caller may be gone.
const rollbackTimeout = 2 * time.Second

// InTx runs fn in a transaction and commits it if fn returns nil. The writes through tx, and the saves of m
// (s.Save, s.Delete, state.Do) with fn's ctx, take effect together or not at all.
//
//	err := store.InTx(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "insert into payments …"); err != nil {
//			return err
//		}
//		s.Value().Paid += amount
//		return s.Save(ctx)
//	})
//
// fn must neither commit nor roll back. If fn or the commit fails, or fn panics, m and its value are as before.
// If the outcome of the commit is unknown (state.ErrOutcomeUnknown), m is stale as well. The error is fn's own
// error unchanged, or one of package state.
//
// The row of m is locked from the save to the end of the transaction, so save last. A process that stands still
// loses the lock after Config.IdleTimeout. InTx blocks while fn does, and for up to Config.RequestTimeout each
// to begin and to commit. It uses m, so only one goroutine at a time may call it with m.
func (s *Store) InTx(ctx context.Context, m state.Member, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := s.beginTx(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w: %w", state.ErrUnavailable, err)
	}
	inside, end := s.withTx(ctx, tx)
	outcome := state.RolledBack
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // has no effect after a commit or on a closed connection
		end(outcome)
	}()
	if err := m.Join(inside); err != nil {
		return err
	}
	if err := fn(inside, tx); err != nil {
		_ = s.db.EndTx(tx, err)
		return err
	}
	outcome, err = s.commitTx(ctx, tx)
	return err
}

func (s *Store) beginTx(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.db.Begin(ctx, s.txOptions)
}

func (s *Store) commitTx(ctx context.Context, tx pgx.Tx) (state.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	err := s.db.EndTx(tx, tx.Commit(ctx))
	switch {
	case err == nil:
		return state.Committed, nil
	case errors.Is(err, pgx.ErrTxCommitRollback), notExecuted(err):
		return state.RolledBack, fmt.Errorf("commit a transaction: %w: %w", state.ErrUnavailable, err)
	}
	return state.Unknown, fmt.Errorf("commit a transaction: %w: %w", state.ErrOutcomeUnknown, err)
}

type txKey struct{ store *Store }

// WithTx lets saves be part of a transaction in the same database that the caller begins and ends itself. Saves
// with the returned context belong to it. When it has ended, call end with the error of tx.Commit, or with any
// error if it was rolled back. After an error, the States that were saved are stale until they are reloaded,
// and their values are as before. Until end is called, they can be used with the returned context only.
//
// Prefer [Store.InTx]. It knows more about the outcome, and limits the time for which a process that stands
// still keeps its locks.
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

// txOf returns the store's transaction in ctx, or nil.
func (s *Store) txOf(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{s}).(pgx.Tx)
	return tx
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// querierOf returns the transaction of ctx, or the database.
func (s *Store) querierOf(ctx context.Context) querier {
	if tx := s.txOf(ctx); tx != nil {
		return tx
	}
	return s.db
}

// classifySaveError classifies the error of a failed save.
func classifySaveError(err error) error {
	if notExecuted(err) {
		return fmt.Errorf("%w: %w", state.ErrUnavailable, withHint(err))
	}
	return fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, pg.WithRemedy(err))
}

// notExecuted reports whether PostgreSQL refused the request or never got it. An error of severity FATAL ends the
// session, and the commit may have come before it.
func notExecuted(err error) bool {
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
	return refused.Code != pg.CodeCompletionUnknown && refused.Code[:2] != "08" // class 08 concerns the connection
}

// transientError reports whether a concurrent transaction was in the way.
func transientError(err error) bool {
	c := pg.CodeOf(err)
	return c == pg.CodeSerializationFailure || c == pg.CodeDeadlock
}

// withHint adds the remedy if the tables are missing or a pooler interferes.
func withHint(err error) error {
	if pg.CodeOf(err) == pg.CodeNoTable {
		return fmt.Errorf("%w; make the tables with CreateTables", err)
	}
	return pg.WithRemedy(err)
}

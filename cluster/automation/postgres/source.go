package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Source provides the rows of a table as items. Any number of automations may share one. All methods are safe for
// concurrent use.
type Source[I any] struct {
	db        *pgxpool.Pool
	pg        *pg.DB
	scan      pgx.RowToFunc[I]
	sql       statements
	txOptions pgx.TxOptions
	timeout   time.Duration
}

// NewSource returns a source, or an error if the configuration is invalid. It sends no request to the database.
func NewSource[I any](cfg Config[I]) (*Source[I], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Source[I]{db: cfg.DB, pg: pg.New(cfg.DB, logqueue.New(cfg.Logger)), scan: cfg.Scan, timeout: cfg.RequestTimeout,
		sql: statementsFor(cfg.Table, cfg.Key, cfg.Where, cfg.OrderBy, cfg.Select, cfg.Done, cfg.Failures)}
	// A claim is checked again with a new snapshot, which other isolation levels do not give.
	s.txOptions.BeginQuery = "begin isolation level read committed"
	if cfg.IdleTimeout > 0 {
		s.txOptions.BeginQuery += fmt.Sprintf("; set local idle_in_transaction_session_timeout = %d",
			max(1, cfg.IdleTimeout.Milliseconds()))
	}
	return s, nil
}

// CreateTables creates the table of failures unless it exists; then it needs no right to create tables. Any number of
// processes may call it at once and repeatedly. It blocks until PostgreSQL has answered or ctx ends.
func (s *Source[I]) CreateTables(ctx context.Context) error {
	if there, err := pg.HasTables(ctx, s.db, s.sql.latest); there && err == nil {
		return nil
	}
	if _, err := s.db.Exec(ctx, s.sql.create); err != nil {
		return fmt.Errorf("create the table of an automation's failures: %w", err)
	}
	return nil
}

// maxClaims limits the rows that one call of Next locks in vain, because another process did them just before.
const maxClaims = 10

// Next implements [automation.Source].
func (s *Source[I]) Next(ctx context.Context, name string,
	work func(ctx context.Context, c automation.Claim[I]) automation.Result) (found bool, err error) {
	for range maxClaims {
		var again bool
		found, again, err = s.claimRow(ctx, name, work)
		if found || !again || err != nil {
			return found, withHint(err)
		}
	}
	return false, nil
}

// claimRow claims a row and calls work. again means that the row was done in the meantime.
func (s *Source[I]) claimRow(ctx context.Context, name string,
	work func(ctx context.Context, c automation.Claim[I]) automation.Result) (found, again bool, err error) {
	tx, err := s.beginTx(ctx)
	if err != nil {
		return false, false, fmt.Errorf("begin the transaction of an item: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // has no effect after a commit or on a closed connection
	}()
	c, err := s.lockRow(ctx, tx, name)
	switch {
	case errors.Is(err, errNoRow):
		return false, false, nil
	case errors.Is(err, errNotDue):
		return false, true, nil
	case err != nil:
		return false, false, fmt.Errorf("claim an item: %w", s.pg.EndTx(tx, err))
	}
	c.Try = func(ctx context.Context, fn func(ctx context.Context) error) error {
		return s.tryInTx(ctx, tx, s.markDone(name, c.Key), fn)
	}
	c.TryPark = func(ctx context.Context, fn func(ctx context.Context) error) error {
		return s.tryInTx(ctx, tx, &pgx.Batch{}, fn)
	}
	result := work(ctx, c)
	if result.Outcome == automation.Released {
		return true, false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	err = s.pg.EndTx(tx, s.commitResult(ctx, tx, name, c.Key, result))
	if err != nil && tx.Conn().IsClosed() && result.Outcome != automation.Done {
		// The commit may have used up the time.
		storing, stored := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		lost := s.storeFailure(storing, name, c.Key, result)
		stored()
		if lost != nil || result.Outcome == automation.Failed {
			err = lost
		}
	}
	if err != nil {
		return true, false, fmt.Errorf("store the result: %w", err)
	}
	return true, false, nil
}

func (s *Source[I]) beginTx(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.pg.Begin(ctx, s.txOptions)
}

var (
	errNoRow  = errors.New("no row is due")
	errNotDue = errors.New("the row is no longer due")
)

// lockRow locks a row that is due, and reads it again: whatever its former holder did is visible now.
func (s *Source[I]) lockRow(ctx context.Context, tx pgx.Tx, name string) (c automation.Claim[I], err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := tx.QueryRow(ctx, s.sql.claim, name).Scan(&c.Key); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return c, errNoRow
		}
		return c, err
	}
	err = s.readRow(ctx, tx, name, &c)
	if err == nil || errors.Is(err, errNotDue) || tx.Conn().IsClosed() || pg.Transient(pg.CodeOf(err)) {
		return c, err
	}
	c.ReadError = err // this row is at fault, and must not hold up the others
	_, err = tx.Exec(ctx, "rollback to savepoint goverse_read")
	return c, err
}

// readRow reads a locked row and its failures.
func (s *Source[I]) readRow(ctx context.Context, tx pgx.Tx, name string, c *automation.Claim[I]) error {
	batch := &pgx.Batch{}
	batch.Queue("savepoint goverse_read")
	batch.Queue(s.sql.failure, name, c.Key)
	batch.Queue(s.sql.value, c.Key)
	results := tx.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return err
	}
	var lastError string
	var waits bool
	err := results.QueryRow().Scan(&c.Attempts, &c.Failures, &lastError, &waits)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return err
	case waits:
		return errNotDue
	default:
		c.LastError = errors.New(lastError)
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	c.Value, err = pgx.CollectOneRow(rows, s.scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return errNotDue
	}
	return errors.Join(err, results.Close())
}

// errStillDue is a mistake in the configuration. Without it, the item would be executed without end.
var errStillDue = errors.New("Config.Done has left the row due: let it change what Config.Where reads")

// markDone returns the statements that mark an item as done and check that it is no longer due.
func (s *Source[I]) markDone(name, key string) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(s.sql.done, key)
	batch.Queue(s.sql.forget, name, key)
	batch.Queue(s.sql.stillDue, key).QueryRow(func(row pgx.Row) error {
		var due bool
		if err := row.Scan(&due); err != nil {
			return err
		}
		if due {
			return errStillDue
		}
		return nil
	})
	return batch
}

// commitResult adds a result to the transaction and commits it.
func (s *Source[I]) commitResult(ctx context.Context, tx pgx.Tx, name, key string, r automation.Result) error {
	if r.Outcome != automation.Done {
		batch := &pgx.Batch{}
		batch.Queue(s.sql.fail, name, key, r.Attempts, r.Failures, r.After.Seconds(), logtext.Bound(r.Err.Error(), maxError),
			r.Outcome == automation.Parked)
		batch.Queue(s.sql.forgetOld, name)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// storeFailure stores a failure after the transaction was lost, and with it what OnPark wrote. An item that was to be
// parked is therefore stored as failed, and claimRow returns an error; OnPark is called again.
func (s *Source[I]) storeFailure(ctx context.Context, name, key string, r automation.Result) error {
	r.Outcome = automation.Failed
	return s.pg.Write(ctx, func(q pg.Querier) error {
		_, err := q.Exec(ctx, s.sql.fail, name, key, r.Attempts, r.Failures, r.After.Seconds(),
			logtext.Bound(r.Err.Error(), maxError), false)
		return err
	})
}

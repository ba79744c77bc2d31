package pg

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// DB runs statements on the connection, pool or transaction that a store was configured with. All methods are
// safe for concurrent use if that is.
type DB struct {
	db       Querier
	pool     *pgxpool.Pool // nil for a single connection, a transaction, or a pool wrapped in another type
	reset    func()        // closes the connections of a pool; nil if there is no pool
	log      hclog.Logger
	outage   atomic.Int32 // the kind of statement that began the logged outage: none, reading or writing
	failedAt atomic.Int64 // when a statement last failed, in nanoseconds of Unix time
	resetAt  atomic.Int64 // when the pool was last reset
}

// New returns a DB that uses a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx. The log, which may be nil, gets one line
// when an outage begins and one when it ends.
func New(db Querier, log hclog.Logger) *DB {
	d := &DB{db: db, log: logqueue.New(log)}
	if pool, ok := db.(interface{ Reset() }); ok {
		d.reset = pool.Reset
	}
	d.pool, _ = db.(*pgxpool.Pool)
	return d
}

// AcquireError reports that no connection could be acquired, so nothing was sent.
type AcquireError struct{ Err error }

func (e *AcquireError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AcquireError) Unwrap() error { return e.Err }

// maxAttempts limits the connections that one call tries. The first may be stale, and so may the second if the
// pool has just been filled.
const maxAttempts = 3

// Write runs do on one connection. It runs do again on another connection if the session was read-only or if
// nothing was sent. All other errors are returned after the first attempt, because the outcome may be unknown.
// Until it has succeeded, do must not change anything but the database.
func (d *DB) Write(ctx context.Context, do func(Querier) error) error {
	return d.runRetrying(ctx, do, false)
}

// Read runs do as Write does. It also repeats do if the connection broke, or if a writable connection turned
// out to be read-only, because its answer may then be out of date. do must be safe to repeat.
func (d *DB) Read(ctx context.Context, do func(Querier) error) error {
	return d.runRetrying(ctx, do, true)
}

func (d *DB) runRetrying(ctx context.Context, do func(Querier) error, repeatable bool) (err error) {
	defer func() {
		err = WithRemedy(err)
		if repeatable {
			d.noteOutcome(outageReads, err)
		} else {
			d.noteOutcome(outageWrites, err)
		}
	}()
	if d.pool == nil {
		return d.runPlain(ctx, do)
	}
	for attempt := 1; ; attempt++ {
		last := attempt == maxAttempts
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return &AcquireError{err}
		}
		if !connCurrent(conn.Conn(), time.Now()) && !last {
			d.retireConn(conn.Conn())
			conn.Release()
			continue
		}
		err = do(conn)
		turned := !connCurrent(conn.Conn(), time.Now())
		if turned || connUseless(err) {
			d.retireConn(conn.Conn())
		}
		conn.Release()
		switch {
		case last || ctx.Err() != nil:
			return err
		case err == nil && !(turned && repeatable):
			return nil
		case err != nil && !RefusedReadOnly(err) && !pgconn.SafeToRetry(err) && !(repeatable && connUseless(err)):
			return err
		}
	}
}

// runPlain runs do where a connection cannot be told from the others of its pool.
func (d *DB) runPlain(ctx context.Context, do func(Querier) error) error {
	err := do(d.db)
	if d.reset == nil || !connUseless(err) {
		return err
	}
	d.resetPool()
	if !RefusedReadOnly(err) || ctx.Err() != nil {
		return err
	}
	return do(d.db)
}

// Begin begins a transaction in a session that accepts writes, as far as that is known without a request. Pass
// the transaction's error to EndTx.
func (d *DB) Begin(ctx context.Context, opts pgx.TxOptions) (tx pgx.Tx, err error) {
	defer func() {
		if err = WithRemedy(err); err != nil { // a read-only session can begin transactions, too
			d.noteOutcome(outageWrites, err)
		}
	}()
	db := d.db.(interface {
		BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	})
	for attempt := 1; ; attempt++ {
		tx, err := db.BeginTx(ctx, opts)
		last := d.reset == nil || attempt == maxAttempts || ctx.Err() != nil
		switch {
		case err == nil && (last || connCurrent(tx.Conn(), time.Now())):
			return tx, nil
		case err == nil:
			d.retireConn(tx.Conn())
			_ = tx.Rollback(ctx) // its connection is closed already
		case last || !connUseless(err) && !pgconn.SafeToRetry(err):
			return nil, err
		}
	}
}

// EndTx reports the error that ends a transaction, nil if it was committed. Call it before the rollback. If the
// connection is of no further use, EndTx closes it. EndTx returns err, with the remedy if there is one.
func (d *DB) EndTx(tx pgx.Tx, err error) error {
	if d.reset != nil && connUseless(err) {
		d.retireConn(tx.Conn())
	}
	d.noteOutcome(outageWrites, err)
	return WithRemedy(err)
}

// QueryRow is QueryRow of [Querier], run by Read.
func (d *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return lazyRow(func(dest ...any) error {
		return d.Read(ctx, func(q Querier) error { return q.QueryRow(ctx, sql, args...).Scan(dest...) })
	})
}

// WriteRow is QueryRow run by Write.
func (d *DB) WriteRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return lazyRow(func(dest ...any) error {
		return d.Write(ctx, func(q Querier) error { return q.QueryRow(ctx, sql, args...).Scan(dest...) })
	})
}

type lazyRow func(dest ...any) error

func (r lazyRow) Scan(dest ...any) error { return r(dest...) }

// resetEvery limits how often the pool is reset while new connections are no better.
const resetEvery = time.Second

// retireConn closes a connection and resets its pool.
func (d *DB) retireConn(conn *pgx.Conn) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ended) // close at once; it does not matter whether the server notices
	d.resetPool()
}

func (d *DB) resetPool() {
	now, last := time.Now().UnixNano(), d.resetAt.Load()
	if now-last >= int64(resetEvery) && d.resetAt.CompareAndSwap(last, now) {
		d.reset()
	}
}

const (
	outageNone int32 = iota
	outageReads
	outageWrites
)

// outageEndAfter is the time without failures after which an outage is over. Some connections recover before others.
const outageEndAfter = time.Second

// noteOutcome logs the first error of an outage, and its end. An outage of writing ends when something was written.
func (d *DB) noteOutcome(doing int32, err error) {
	began := d.outage.Load()
	switch {
	case dbUnreachable(err):
		d.failedAt.Store(time.Now().UnixNano())
		if began < doing && d.outage.CompareAndSwap(began, doing) && began == outageNone {
			cause := err
			if e, ok := errors.AsType[*pgconn.PgError](err); ok { // without the text that the caller adds
				cause = e
			}
			d.log.Warn("PostgreSQL cannot be reached or takes no writes, retrying on new connections",
				"error", logtext.OneLine(cause))
		}
	case began != outageNone && began <= doing && (err == nil || errors.Is(err, pgx.ErrNoRows)):
		if time.Now().UnixNano()-d.failedAt.Load() < int64(outageEndAfter) {
			return
		}
		if d.outage.CompareAndSwap(began, outageNone) {
			d.log.Info("PostgreSQL answers again")
		}
	}
}

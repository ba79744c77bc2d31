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

// DB carries statements out on what a store was configured with. All methods are safe for concurrent use where that
// is.
type DB struct {
	db      Querier
	pool    *pgxpool.Pool // nil: there is one connection, a transaction, or a pool in a type of the user's
	reset   func()        // closes the connections of a pool; nil: there is none
	log     hclog.Logger
	failing atomic.Int32 // how the outage began that was logged: none, reading or writing
	failed  atomic.Int64 // when a statement failed last, in nanoseconds of Unix time
	resetAt atomic.Int64 // when the pool was reset last
}

// New makes a DB of a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx. The log gets one line when an outage begins and one
// when it ends; nil: none.
func New(db Querier, log hclog.Logger) *DB {
	d := &DB{db: db, log: logqueue.New(log)}
	if pool, ok := db.(interface{ Reset() }); ok {
		d.reset = pool.Reset
	}
	d.pool, _ = db.(*pgxpool.Pool)
	return d
}

// AcquireError reports that there was no connection: nothing was sent.
type AcquireError struct{ Err error }

func (e *AcquireError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *AcquireError) Unwrap() error { return e.Err }

// attempts limits how often one call tries a connection: the first may be a stale one, and the second too where
// the pool has just been filled.
const attempts = 3

// Write carries do out on one connection. It does so again on another one if the session was read-only, or nothing
// was sent. All other errors are returned after the first attempt, since the outcome may be unknown. do must not
// change anything but the database before it has succeeded.
func (d *DB) Write(ctx context.Context, do func(Querier) error) error { return d.run(ctx, do, false) }

// Read carries do out as Write does, and again also where the connection broke, or turned out to be read-only when
// it was writable before: its answer may be out of date. do has to be harmless when repeated.
func (d *DB) Read(ctx context.Context, do func(Querier) error) error { return d.run(ctx, do, true) }

func (d *DB) run(ctx context.Context, do func(Querier) error, repeatable bool) (err error) {
	defer func() {
		err = Explain(err)
		if repeatable {
			d.note(reading, err)
		} else {
			d.note(writing, err)
		}
	}()
	if d.pool == nil {
		return d.plain(ctx, do)
	}
	for attempt := 1; ; attempt++ {
		last := attempt == attempts
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return &AcquireError{err}
		}
		if !current(conn.Conn(), time.Now()) && !last {
			d.retire(conn.Conn())
			conn.Release()
			continue
		}
		err = do(conn)
		turned := !current(conn.Conn(), time.Now())
		if turned || useless(err) {
			d.retire(conn.Conn())
		}
		conn.Release()
		switch {
		case last || ctx.Err() != nil:
			return err
		case err == nil && !(turned && repeatable):
			return nil
		case err != nil && !Refused(err) && !pgconn.SafeToRetry(err) && !(repeatable && useless(err)):
			return err
		}
	}
}

// plain is run where connections cannot be told apart.
func (d *DB) plain(ctx context.Context, do func(Querier) error) error {
	err := do(d.db)
	if d.reset == nil || !useless(err) {
		return err
	}
	d.resetPool()
	if !Refused(err) || ctx.Err() != nil {
		return err
	}
	return do(d.db)
}

// Begin begins a transaction on a connection whose session takes writes, as far as that is known without asking.
// Give the errors of what is done in it to Ended.
func (d *DB) Begin(ctx context.Context, opts pgx.TxOptions) (tx pgx.Tx, err error) {
	defer func() {
		if err = Explain(err); err != nil { // a read-only session begins transactions, too
			d.note(writing, err)
		}
	}()
	db := d.db.(interface {
		BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	})
	for attempt := 1; ; attempt++ {
		tx, err := db.BeginTx(ctx, opts)
		last := d.reset == nil || attempt == attempts || ctx.Err() != nil
		switch {
		case err == nil && (last || current(tx.Conn(), time.Now())):
			return tx, nil
		case err == nil:
			d.retire(tx.Conn())
			_ = tx.Rollback(ctx) // its connection is closed
		case last || !useless(err) && !pgconn.SafeToRetry(err):
			return nil, err
		}
	}
}

// Ended reports what a transaction ended with, nil if it was committed, before it is rolled back: where its
// connection is of no use, that is closed. It returns the error, with the remedy where there is one.
func (d *DB) Ended(tx pgx.Tx, err error) error {
	if d.reset != nil && useless(err) {
		d.retire(tx.Conn())
	}
	d.note(writing, err)
	return Explain(err)
}

// QueryRow is [Querier]'s QueryRow by Read.
func (d *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row(func(dest ...any) error {
		return d.Read(ctx, func(q Querier) error { return q.QueryRow(ctx, sql, args...).Scan(dest...) })
	})
}

// WriteRow is QueryRow by Write.
func (d *DB) WriteRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row(func(dest ...any) error {
		return d.Write(ctx, func(q Querier) error { return q.QueryRow(ctx, sql, args...).Scan(dest...) })
	})
}

type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

// resetEvery limits how often the pool is reset, where new connections are no better.
const resetEvery = time.Second

// retire closes a connection, and those that the pool has beside it.
func (d *DB) retire(conn *pgx.Conn) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ended) // at once: whether the server hears of it does not matter
	d.resetPool()
}

func (d *DB) resetPool() {
	now, last := time.Now().UnixNano(), d.resetAt.Load()
	if now-last >= int64(resetEvery) && d.resetAt.CompareAndSwap(last, now) {
		d.reset()
	}
}

const (
	none int32 = iota
	reading
	writing
)

// calm is how long nothing has failed where an outage is over: some connections may be in order before others.
const calm = time.Second

// note logs the first error of an outage, and its end: that of writing ends when something was written.
func (d *DB) note(doing int32, err error) {
	began := d.failing.Load()
	switch {
	case unreachable(err):
		d.failed.Store(time.Now().UnixNano())
		if began < doing && d.failing.CompareAndSwap(began, doing) && began == none {
			cause := err
			if e, ok := errors.AsType[*pgconn.PgError](err); ok { // without what the caller makes of it
				cause = e
			}
			d.log.Warn("PostgreSQL cannot be reached or takes no writes, retrying on new connections",
				"error", logtext.OneLine(cause))
		}
	case began != none && began <= doing && (err == nil || errors.Is(err, pgx.ErrNoRows)):
		if time.Now().UnixNano()-d.failed.Load() < int64(calm) {
			return
		}
		if d.failing.CompareAndSwap(began, none) {
			d.log.Info("PostgreSQL answers again")
		}
	}
}

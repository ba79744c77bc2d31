package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/lock"
)

// rowTables has the present state of each counter, and all its states in PostgreSQL's own order.
const rowTables = `
	CREATE TABLE counter (key text PRIMARY KEY, revision bigint NOT NULL, token bigint NOT NULL, value text NOT NULL);
	CREATE TABLE counted (key text, revision bigint, token bigint NOT NULL, value text NOT NULL,
		PRIMARY KEY (key, revision))`

// Database is the part of pgx that rows use: a *pgxpool.Pool, or a *pgx.Conn for one caller.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CreateRows makes the tables of the counters of these locks in PostgreSQL.
func CreateRows(ctx context.Context, db Database, locks ...string) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if _, err := tx.Exec(ctx, rowTables); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO counter SELECT k, 0, 0, '' FROM unnest($1::text[]) k", locks); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Fence lets a transaction commit only while a lock is held. Its error matches lock.ErrLost if the lock is not.
type Fence func(ctx context.Context, tx pgx.Tx, h lock.Held) error

// Row is a counter in a row of PostgreSQL, which the holder of a lock reads and increments under the lock's fence
// alone. Its revisions are numbers of its own. All methods are safe for concurrent use if the database's are.
type Row struct {
	rec        *Recorder
	node, lock string
	db         Database
	fence      Fence
}

// Row returns the counter of a lock for one node. [CreateRows] has made it.
func (r *Recorder) Row(node string, db Database, lock string, fence Fence) *Row {
	return &Row{rec: r, node: node, lock: lock, db: db, fence: fence}
}

// NewRowWork returns work under locks of these names, each with a counter in PostgreSQL.
func (r *Recorder) NewRowWork(node string, db Database, fence Fence, names ...string) LockWork {
	return newLockWork(names, func(name string) LockCounter { return r.Row(node, db, name, fence) })
}

func (w *Row) newOp() Op {
	return Op{Process: w.rec.process, ID: w.rec.ids.Add(1), Node: w.node, Key: w.lock, Subject: Lock(w.lock), Call: Now(),
		Outcome: OutcomeUnknown}
}

// Read makes one linearizable read and records it when it is answered. A read that fails is not recorded. Read blocks
// until PostgreSQL has answered or ctx ends.
func (w *Row) Read(ctx context.Context) Op {
	op := w.newOp()
	err := w.db.QueryRow(ctx, "SELECT revision, token, value FROM counter WHERE key = $1", w.lock).
		Scan(&op.Revision, &op.Token, &op.Value)
	op.Return = Now()
	if err != nil {
		op.Error = err.Error()
		return op
	}
	op.Outcome = OutcomeAccepted
	w.rec.writeLines(recordLine{Op: &op})
	return op
}

// Increment reads the counter and writes the next number, in two transactions. The lock's fence is the only condition
// of the second. Increment records both and blocks until PostgreSQL has answered or ctx ends. The outcome is refused
// only if the fence found that the lock is lost. If the read failed, the outcome is unknown and no write is recorded,
// because none was sent.
func (w *Row) Increment(ctx context.Context, h *Hold) Op {
	base := w.Read(ctx)
	op := w.newOp()
	op.Write, op.Counts, op.Token = true, true, h.Token()
	if base.Outcome != OutcomeAccepted {
		op.Error = base.Error
		return op
	}
	op.Base = base.Value
	op.Value = fmt.Sprintf("%s#%d=%d", op.Process, op.ID, counterValue(base.Value)+1)
	w.rec.writeLines(recordLine{Op: &op})
	revision, err := w.write(ctx, h.Held, op)
	op.Return = Now()
	switch {
	case err == nil:
		op.Outcome, op.Revision = OutcomeAccepted, revision
	case errors.Is(err, lock.ErrLost):
		op.Outcome, op.Error = OutcomeRefused, err.Error()
	default:
		op.Error = err.Error()
	}
	w.rec.writeLines(recordLine{Op: &op})
	return op
}

// write writes the state that an increment leaves.
func (w *Row) write(ctx context.Context, held lock.Held, op Op) (revision int64, err error) {
	tx, err := w.db.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if err := w.fence(ctx, tx, held); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `WITH now AS (UPDATE counter SET revision = revision + 1, token = $2, value = $3 WHERE key = $1
			RETURNING revision)
		INSERT INTO counted SELECT $1, revision, $2, $3 FROM now RETURNING revision`, op.Key, op.Token, op.Value).
		Scan(&revision)
	if err != nil {
		return 0, err
	}
	return revision, tx.Commit(ctx)
}

// RecordRows records all states that the counters have had, in PostgreSQL's own order. Call it after the last
// increment.
func (r *Recorder) RecordRows(ctx context.Context, db Database) error {
	rows, err := db.Query(ctx, "SELECT key, revision, token, value FROM counted ORDER BY key, revision")
	if err != nil {
		return err
	}
	e := Entry{At: Now()}
	_, err = pgx.ForEachRow(rows, []any{&e.Key, &e.Revision, &e.Token, &e.Value}, func() error {
		e.Subject = Lock(e.Key)
		r.writeLines(recordLine{Entry: &e})
		return nil
	})
	return err
}

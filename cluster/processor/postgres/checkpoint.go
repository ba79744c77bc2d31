package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
)

// DB is the connection to the database: a *pgxpool.Pool. A *pgx.Conn does for CreateTables and for operators, one
// call at a time, and for no processor: a processor publishes its report beside the batches.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config configures a [Checkpoint]. DB is required.
type Config struct {
	// DB is never closed. Each processor uses one connection of a pool at a time, shared with a [Source] on the
	// same pool, a second one while it publishes its report, and a third one while the source counts the lag. If a
	// handler takes another connection of the same pool in addition to Tx, it may wait forever when as many
	// processors do so as the pool has connections. Give such handlers a pool of their own.
	DB DB
	// Table is the checkpoints' table, with or without its schema. Parked events are in a table of the same
	// name with the suffix _parked, and requests and reports in one with _status. Default goverse_checkpoints.
	Table string
	// IdleTimeout is the time without a statement after which PostgreSQL ends a batch's transaction. Without
	// it, a process that stands still would keep its locks forever. It must be longer than the handlers of a
	// batch take between two statements. A batch that exceeds it is retried with half as many events, and a
	// single event that exceeds it has failed. Default 30 s; if negative, the server's setting applies.
	IdleTimeout time.Duration
	// RequestTimeout limits each statement, including the commit, that the checkpoint itself makes for a
	// processor. The wait for a connection of the pool counts towards the first one. It does not limit the
	// handler, nor CreateTables and the methods of processor.Manager: if the server no longer answers, they wait
	// until their own context ends. It must be longer than a commit with its deferred constraints. Default 5 s.
	RequestTimeout time.Duration
	// Logger gets one line when the database cannot be reached or refuses writes, and one when it is back.
	// Default: none, because the processor logs its failures.
	Logger hclog.Logger
}

// ErrBadTable is returned for an invalid name of a table.
var ErrBadTable = errors.New("bad table name")

// plainName matches names that need no quotes, so that the name here and in psql is the same.
var plainName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,55}$`)

// Checkpoint is a processor.Checkpoint in PostgreSQL. All methods are safe for concurrent use.
type Checkpoint struct {
	db        DB // as configured
	pg        *pg.DB
	txOptions pgx.TxOptions
	sql       statements
	timeout   time.Duration
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, "goverse_checkpoints")
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	return c
}

// Validate returns an error that matches processor.ErrBadConfig or [ErrBadTable] if the configuration is
// invalid.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.DB == nil:
		return fmt.Errorf("%w: postgres.Config.DB is nil; give it a pgxpool.Pool", processor.ErrBadConfig)
	case !plainName.MatchString(d.Table):
		return fmt.Errorf("%w %q: write it in small letters, digits and underscores, with a schema and a dot before "+
			"it or not, of at most 56 bytes", ErrBadTable, d.Table)
	case d.RequestTimeout < 0:
		return fmt.Errorf("%w: postgres.Config.RequestTimeout is negative (%v); leave it 0 for the default",
			processor.ErrBadConfig, d.RequestTimeout)
	}
	return nil
}

// New returns a checkpoint, or an error if the configuration is invalid. It sends no request to the database.
func New(cfg Config) (*Checkpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Checkpoint{db: cfg.DB, pg: pg.New(cfg.DB, cfg.Logger), sql: statementsFor(cfg.Table),
		timeout: cfg.RequestTimeout}
	if cfg.IdleTimeout > 0 {
		c.txOptions.BeginQuery = fmt.Sprintf("begin; set local idle_in_transaction_session_timeout = %d",
			max(1, cfg.IdleTimeout.Milliseconds()))
	}
	return c, nil
}

// CreateTables creates the tables unless they exist, and adds what tables of earlier releases lack. If nothing is to be
// done, it needs no right to create tables. Any number of processes may call it at once and repeatedly. It blocks until
// PostgreSQL has answered or ctx ends, and has no time-out of its own.
func (c *Checkpoint) CreateTables(ctx context.Context) error {
	if there, err := pg.HasTables(ctx, c.db, c.sql.latest); there && err == nil {
		return nil
	}
	if _, err := c.db.Exec(ctx, c.sql.create); err != nil {
		return fmt.Errorf("create the tables of checkpoints: %w", err)
	}
	return nil
}

type txKey struct{}

// errNoTx reports a mistake in the program; no event causes it.
var errNoTx = fmt.Errorf("%w: postgres.Tx: there is no transaction in this context; give it the handler's, of a "+
	"processor whose Checkpoint is a *postgres.Checkpoint", processor.ErrUnavailable)

// Tx returns the transaction of the handler or OnPark that is called with ctx. Writes in it take effect
// together with the new position. Neither commit it nor roll it back. Tx panics for any other ctx, with an
// error that matches processor.ErrUnavailable: a processor with another kind of checkpoint retries and parks
// nothing because of it.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic(errNoTx)
	}
	return tx
}

// Claim implements [processor.Checkpoint]. It waits for a transaction that is about to commit. With token 0 it
// reads the token and replaces exactly that one, or starts again. A delayed request that is carried out after a
// later one therefore changes nothing.
func (c *Checkpoint) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	if token != 0 {
		m, err := c.storeToken(ctx, name, token, false)
		if errors.Is(err, pgx.ErrNoRows) {
			err = c.overtakenError(ctx, name, token)
		}
		return m, err
	}
	for {
		last, err := c.storedToken(ctx, name)
		if err != nil {
			return processor.Mark{}, err
		}
		m, err := c.storeToken(ctx, name, last+1, true)
		if !errors.Is(err, pgx.ErrNoRows) { // otherwise another claim was faster
			return m, err
		}
	}
}

// storeToken stores the token unless the stored one is larger. If next is set, it stores the token only if it is the
// stored one plus one. If it stores nothing, the error is pgx.ErrNoRows.
func (c *Checkpoint) storeToken(ctx context.Context, name string, token int64, next bool) (m processor.Mark,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	m, err = scanMark(c.pg.WriteRow(ctx, c.sql.claim, name, token, next))
	if err != nil {
		return processor.Mark{}, fmt.Errorf("claim the checkpoint of processor %q: %w", name, withHint(err))
	}
	return m, nil
}

// storedToken returns the stored token, 0 if there is none.
func (c *Checkpoint) storedToken(ctx context.Context, name string) (token int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = c.pg.QueryRow(ctx, c.sql.token, name).Scan(&token)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read the checkpoint of processor %q: %w", name, withHint(err))
	}
	return token, nil
}

// withHint adds the remedy if the tables are missing, or are those of an earlier release.
func withHint(err error) error {
	if code := pg.CodeOf(err); code == pg.CodeNoTable || code == pg.CodeNoColumn {
		return fmt.Errorf("%w; make the tables with CreateTables", err)
	}
	return err
}

// overtakenError returns the error for a checkpoint that has changed.
func (c *Checkpoint) overtakenError(ctx context.Context, name string, token int64) error {
	now, err := c.storedToken(ctx, name)
	switch {
	case err != nil:
		return err
	case now > token:
		return fmt.Errorf("processor %q, token %d, stored %d: %w", name, token, now, processor.ErrFenced)
	}
	return fmt.Errorf("processor %q: %w", name, processor.ErrMoved)
}

// Advance implements [processor.Checkpoint]. The context of work holds the transaction; see [Tx].
func (c *Checkpoint) Advance(ctx context.Context, name string, at processor.Mark,
	work func(ctx context.Context) (processor.Progress, error)) (processor.Mark, error) {
	tx, err := c.beginTx(ctx)
	if err != nil {
		return at, fmt.Errorf("begin the transaction of processor %q: %w", name, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // has no effect after a commit or on a closed connection
	}()
	progress, err := work(context.WithValue(ctx, txKey{}, tx))
	if err != nil {
		err = c.pg.EndTx(tx, err)
		return at, classifyWorkError(ctx, tx, name, err)
	}
	next, err := c.writeProgress(ctx, tx, name, at, progress)
	switch {
	case err != nil && !errors.Is(err, errOvertaken):
		return at, classifyCommitError(name, c.pg.EndTx(tx, err))
	case err != nil:
		_ = tx.Rollback(ctx) // its connection may be the only one
		return at, c.overtakenError(ctx, name, at.Token)
	}
	if err := c.pg.EndTx(tx, c.commitTx(ctx, tx)); err != nil {
		return at, classifyCommitError(name, err)
	}
	return next, nil
}

func (c *Checkpoint) beginTx(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.pg.Begin(ctx, c.txOptions)
}

func (c *Checkpoint) commitTx(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return tx.Commit(ctx)
}

const rollbackTimeout = 2 * time.Second

// errOvertaken reports that the checkpoint has changed since the mark.
var errOvertaken = errors.New("overtaken")

// writeProgress adds the progress to the transaction, in one round trip. It returns the new mark, or errOvertaken. The
// checkpoint's row is locked last, so that the mark shows the requests that are left.
func (c *Checkpoint) writeProgress(ctx context.Context, tx pgx.Tx, name string, at processor.Mark,
	progress processor.Progress) (next processor.Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	batch := &pgx.Batch{}
	for _, p := range progress.Parked {
		batch.Queue(c.sql.park, name, p.Position, p.Error, p.Attempts, p.Token, p.Time, p.After)
	}
	if len(progress.Handled) > 0 {
		handled := make([]string, len(progress.Handled))
		for i, p := range progress.Handled {
			handled[i] = string(p)
		}
		batch.Queue(c.sql.handled, name, handled)
	}
	if p := progress.Failed; p != nil {
		batch.Queue(c.sql.failed, name, p.Position, p.Error, p.Attempts, p.Token, p.Time)
	}
	batch.Queue(c.sql.advance, name, at.Token, at.Version, progress.Position, progress.Replay).QueryRow(
		func(row pgx.Row) (err error) {
			next, err = scanMark(row)
			return err
		})
	err = tx.SendBatch(ctx, batch).Close()
	// Another transaction may have changed the checkpoint, with a stricter isolation level.
	if errors.Is(err, pgx.ErrNoRows) || pg.CodeOf(err) == pg.CodeSerializationFailure {
		return at, errOvertaken
	}
	return next, err
}

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

// DB is where the checkpoints lie: a *pgxpool.Pool. A *pgx.Conn serves one processor at a time, and
// pgx closes it when a context ends in the middle of a statement, as it does when a lead is lost:
// the processor then fails until the program ends.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config is what checkpoints in PostgreSQL need. DB is required.
type Config struct {
	// DB is never closed. Each processor uses one connection of a pool at a time, for a [Source] of the
	// same pool too, and a second one while that counts the lag. A handler that takes another one of
	// the same pool, beside Tx, may wait forever when as many processors as the pool has connections
	// do so: give it a pool of its own.
	DB DB
	// Table is the checkpoints' table, with its schema or without. What is parked is in a table
	// of that name and _parked. Default goverse_checkpoints.
	Table string
	// IdleTimeout is after how long without a statement PostgreSQL ends a batch's transaction,
	// so that a process that stands still does not keep its locks forever. It must be longer
	// than what handlers do, one after the other, between two statements: a batch that takes
	// longer is tried with half as many events, and at one event that is its fault. Default 30 s;
	// negative: what the server is set to.
	IdleTimeout time.Duration
	// RequestTimeout bounds each statement that the checkpoint makes for a processor, the commit among them, but
	// not what the handler does: where a server says nothing any more, that waits as long as its own context lets
	// it. So do Parked, Forget, Rewind, Unfence and CreateTables. Waiting for a connection of the pool is part of
	// the first. It must be longer than a commit takes, with the constraints that are deferred to it. Default 5 s.
	RequestTimeout time.Duration
	// Logger gets one line when the database is away, or takes no writes, and one when it is back. Default: none,
	// since the processor logs that it fails.
	Logger hclog.Logger
}

// ErrBadTable: the table's name cannot be used.
var ErrBadTable = errors.New("bad table name")

// plainName needs no quotes, so that what is written here and in psql is the same.
var plainName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,55}$`)

// Checkpoint is a processor.Checkpoint in PostgreSQL. All methods are safe for concurrent use.
type Checkpoint struct {
	db      DB // as it was given
	pg      *pg.DB
	begin   pgx.TxOptions
	sql     statements
	timeout time.Duration
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, "goverse_checkpoints")
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	return c
}

// Validate reports what is wrong with the configuration; errors match processor.ErrBadConfig or [ErrBadTable].
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

// New checks the configuration. It asks the database nothing.
func New(cfg Config) (*Checkpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Checkpoint{db: cfg.DB, pg: pg.New(cfg.DB, cfg.Logger), sql: statementsFor(cfg.Table),
		timeout: cfg.RequestTimeout}
	if cfg.IdleTimeout > 0 {
		c.begin.BeginQuery = fmt.Sprintf("begin; set local idle_in_transaction_session_timeout = %d",
			max(1, cfg.IdleTimeout.Milliseconds()))
	}
	return c, nil
}

// CreateTables creates the tables where they do not exist. Any number of processes may do that
// at once, and again. It blocks until PostgreSQL has answered or ctx ends, and has no time-out of its
// own.
func (c *Checkpoint) CreateTables(ctx context.Context) error {
	if _, err := c.db.Exec(ctx, c.sql.create); err != nil {
		return fmt.Errorf("create the tables of checkpoints: %w", err)
	}
	return nil
}

type txKey struct{}

// errNoTx is the program's fault, and no event's.
var errNoTx = fmt.Errorf("%w: postgres.Tx: there is no transaction in this context; give it the handler's, of a "+
	"processor whose Checkpoint is a *postgres.Checkpoint", processor.ErrUnavailable)

// Tx is the transaction in which a handler, or OnPark, is called, with its ctx: what is written
// there takes effect together with the new position. Neither commit it nor roll it back. It panics
// for any other ctx, with an error that matches processor.ErrUnavailable: a processor whose
// checkpoint is another one keeps trying, and parks nothing for it.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic(errNoTx)
	}
	return tx
}

// Claim implements [processor.Checkpoint]. It waits for a transaction that is about to commit. With
// token 0 it replaces the token that it has read, or begins again: a request that is carried out late,
// after another one was sent, changes nothing.
func (c *Checkpoint) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	if token != 0 {
		m, err := c.claim(ctx, name, token, false)
		if errors.Is(err, pgx.ErrNoRows) {
			err = c.overtaken(ctx, name, token)
		}
		return m, err
	}
	for {
		last, err := c.token(ctx, name)
		if err != nil {
			return processor.Mark{}, err
		}
		m, err := c.claim(ctx, name, last+1, true)
		if !errors.Is(err, pgx.ErrNoRows) { // else another was faster
			return m, err
		}
	}
}

// claim stores the token unless a larger one stands there, or, if it is to be the next, another one
// than that before it: the error is pgx.ErrNoRows then.
func (c *Checkpoint) claim(ctx context.Context, name string, token int64, next bool) (m processor.Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = c.pg.WriteRow(ctx, c.sql.claim, name, token, next).Scan(&m.Position, &m.Token, &m.Version)
	if err != nil {
		return processor.Mark{}, fmt.Errorf("claim the checkpoint of processor %q: %w", name, hinted(err))
	}
	return m, nil
}

// token is the one that stands there, 0 if none does.
func (c *Checkpoint) token(ctx context.Context, name string) (token int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = c.pg.QueryRow(ctx, c.sql.token, name).Scan(&token)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read the checkpoint of processor %q: %w", name, hinted(err))
	}
	return token, nil
}

// hinted says what to do where there are no tables.
func hinted(err error) error {
	if pg.CodeOf(err) == pg.NoTable {
		return fmt.Errorf("%w; make the tables with CreateTables", err)
	}
	return err
}

// overtaken says why a checkpoint is not as it was.
func (c *Checkpoint) overtaken(ctx context.Context, name string, token int64) error {
	now, err := c.token(ctx, name)
	switch {
	case err != nil:
		return err
	case now > token:
		return fmt.Errorf("processor %q, token %d, stored %d: %w", name, token, now, processor.ErrFenced)
	}
	return fmt.Errorf("processor %q: %w", name, processor.ErrMoved)
}

// Advance implements [processor.Checkpoint]. work's context has the transaction; see [Tx].
func (c *Checkpoint) Advance(ctx context.Context, name string, at processor.Mark,
	work func(ctx context.Context) (processor.Progress, error)) (processor.Mark, error) {
	tx, err := c.start(ctx)
	if err != nil {
		return at, fmt.Errorf("begin the transaction of processor %q: %w", name, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // nothing, after a commit; or the connection is closed
	}()
	progress, err := work(context.WithValue(ctx, txKey{}, tx))
	if err != nil {
		err = c.pg.Ended(tx, err)
		return at, inWork(ctx, tx, name, err)
	}
	next := processor.Mark{Position: progress.Position, Token: at.Token, Version: at.Version + 1}
	moved, err := c.write(ctx, tx, name, at, progress)
	switch {
	case err != nil:
		return at, blame(name, c.pg.Ended(tx, err))
	case !moved:
		_ = tx.Rollback(ctx) // its connection may be the only one
		return at, c.overtaken(ctx, name, at.Token)
	}
	if err := c.pg.Ended(tx, c.commit(ctx, tx)); err != nil {
		return at, blame(name, err)
	}
	return next, nil
}

func (c *Checkpoint) start(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.pg.Begin(ctx, c.begin)
}

func (c *Checkpoint) commit(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return tx.Commit(ctx)
}

const rollbackTimeout = 2 * time.Second

// write puts the progress into the transaction, in one round trip, and reports whether the
// checkpoint is as it was.
func (c *Checkpoint) write(ctx context.Context, tx pgx.Tx, name string, at processor.Mark,
	progress processor.Progress) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue(c.sql.advance, name, at.Token, at.Version, progress.Position)
	for _, p := range progress.Parked {
		batch.Queue(c.sql.park, name, p.Position, p.Error, p.Attempts, p.Token, p.Time)
	}
	results := tx.SendBatch(ctx, batch)
	tag, err := results.Exec()
	err = errors.Join(err, results.Close())
	if pg.CodeOf(err) == pg.NotSerializing { // it was changed meanwhile, and the isolation says so
		return false, nil
	}
	return tag.RowsAffected() == 1, err
}

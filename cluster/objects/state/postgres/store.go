package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// DB is the connection to the database: a *pgxpool.Pool. A *pgx.Conn serves one caller at a time, and pgx
// closes it when a context ends during a statement.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config configures a [Store]. DB is required.
type Config struct {
	// DB is never closed. Each call uses one connection of a pool for one statement.
	DB DB
	// Table is a table created by [CreateTables], with or without its schema. Its name has lower-case letters,
	// digits and underscores, at most 55 bytes. Replies are in a table of the same name with the suffix
	// _replies. Default goverse_objects.
	Table string
	// Retention is the time for which replies, and claims of objects without a state, are kept. Default 24 h.
	Retention time.Duration
	// RequestTimeout limits each statement, in addition to the caller's context. It includes the wait for a
	// connection of the pool and for the row's lock. Default 5 s.
	RequestTimeout time.Duration
	// IdleTimeout is the time without a statement after which PostgreSQL ends a transaction of [Store.InTx].
	// Without it, a process that stands still, or that lost its host, would keep its locks forever, and the
	// next owner of its objects would wait for them. It must be longer than fn takes between two statements.
	// Default 10 s; if negative, the server's setting applies.
	IdleTimeout time.Duration
	// MaxBytes limits the size of a state and a reply together. Default 64 MiB.
	MaxBytes int
	// Logger gets one line when the database cannot be reached or refuses writes, and one when it is back.
	// Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, defaultTable)
	c.Retention = cmp.Or(c.Retention, state.DefaultRetention)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 10*time.Second)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate returns an error that matches state.ErrBadConfig if the configuration is invalid.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.DB == nil:
		return fmt.Errorf("%w: postgres.Config.DB is nil; make one with pgxpool.New", state.ErrBadConfig)
	case d.Retention < 0:
		return fmt.Errorf("%w: postgres.Config.Retention is negative (%v); leave it 0 for the default",
			state.ErrBadConfig, d.Retention)
	case d.RequestTimeout < 0:
		return fmt.Errorf("%w: postgres.Config.RequestTimeout is negative (%v); leave it 0 for the default",
			state.ErrBadConfig, d.RequestTimeout)
	case d.MaxBytes < 0:
		return fmt.Errorf("%w: postgres.Config.MaxBytes is negative (%d); leave it 0 for the default",
			state.ErrBadConfig, d.MaxBytes)
	}
	return checkTable(d.Table)
}

// Store is a state.Store in PostgreSQL. All methods are safe for concurrent use, except with the context of a
// transaction: only one goroutine at a time may use a transaction.
type Store struct {
	cfg       Config
	db        *pg.DB
	txOptions pgx.TxOptions
	sql       statements
	saves     atomic.Uint64 // number of saves with a reply
}

var _ state.Store = (*Store)(nil)

// New returns a store, or an error if the configuration is invalid. It sends no request to the database.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, db: pg.New(cfg.DB, cfg.Logger), sql: statementsFor(cfg.Table)}
	if cfg.IdleTimeout > 0 {
		s.txOptions.BeginQuery = fmt.Sprintf("begin; set local idle_in_transaction_session_timeout = %d",
			max(1, cfg.IdleTimeout.Milliseconds()))
	}
	return s, nil
}

// Load implements [state.Store]. It is never part of a transaction, because the claim must stand whatever the
// outcome of the transaction. It waits for a transaction that has saved the object and has not ended.
func (s *Store) Load(ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
	if err := ref.Validate(); err != nil {
		return state.Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		var r state.Record
		err := s.db.WriteRow(ctx, s.sql.load, ref.Service, []byte(ref.Key), epoch).
			Scan(&r.Version, &r.Found, &r.Value)
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, pgx.ErrNoRows):
			return state.Record{}, fmt.Errorf("epoch %d: %w", epoch, state.ErrFenced)
		case transientError(err) && attempt < maxAttempts: // another write was faster, with a stricter isolation level
			continue
		}
		return state.Record{}, fmt.Errorf("%w: %w", state.ErrUnavailable, withHint(err))
	}
}

// Reply implements [state.Store].
func (s *Store) Reply(ctx context.Context, ref state.Ref, requestID string) (reply []byte, ok bool, err error) {
	if err := errors.Join(ref.Validate(), state.CheckRequestID(requestID)); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	err = s.querierOf(ctx).QueryRow(ctx, s.sql.reply, ref.Service, []byte(ref.Key), requestID,
		s.cfg.Retention).Scan(&reply)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", state.ErrUnavailable, withHint(err))
	}
	return reply, true, nil
}

// Save implements [state.Store], in one statement.
func (s *Store) Save(ctx context.Context, ref state.Ref, w state.Write) (version int64, err error) {
	if err := errors.Join(ref.Validate(), w.Validate()); err != nil {
		return 0, err
	}
	if size := len(w.Value) + len(w.Reply); size > s.cfg.MaxBytes {
		return 0, fmt.Errorf("%w: they have %d bytes of at most %d", state.ErrTooLarge, size, s.cfg.MaxBytes)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", state.ErrUnavailable, context.Cause(ctx))
	}
	if tx := s.txOf(ctx); tx != nil {
		return s.saveRecord(ctx, tx, ref, w)
	}
	err = s.db.Write(ctx, func(db pg.Querier) (err error) {
		version, err = s.saveRecord(ctx, db, ref, w)
		return err
	})
	if _, none := errors.AsType[*pg.AcquireError](err); none {
		err = fmt.Errorf("%w: %w", state.ErrUnavailable, err)
	}
	return version, err
}

// saveRecord is Save on one connection. It returns version 0 with any error.
func (s *Store) saveRecord(ctx context.Context, db querier, ref state.Ref, w state.Write) (version int64, err error) {
	sql, args := s.saveStatement(ref, w)
	for attempt := 1; ; attempt++ {
		err = db.QueryRow(ctx, sql, args...).Scan(&version)
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, pgx.ErrNoRows):
			return 0, cmp.Or(s.refusalError(ctx, db, ref, w), state.ErrConflict)
		case !transientError(err) || s.txOf(ctx) != nil:
			return 0, classifySaveError(err)
		}
		// Another write came between, with a stricter isolation level, perhaps to this very record.
		if refused := s.refusalError(ctx, db, ref, w); refused != nil {
			return 0, refused
		}
		if attempt == maxAttempts {
			return 0, classifySaveError(err)
		}
	}
}

// maxAttempts limits the attempts of a statement that PostgreSQL refused because of concurrent transactions.
const maxAttempts = 10

// saveStatement returns the statement of a save and its arguments.
func (s *Store) saveStatement(ref state.Ref, w state.Write) (sql string, args []any) {
	args = []any{ref.Service, []byte(ref.Key), w.Epoch, w.Version, emptyIfNil(w.Value), w.Delete}
	switch {
	case w.RequestID == "":
		return s.sql.save, args
	case s.saves.Add(1)%expireEvery != 0:
		return s.sql.saveReply, append(args, w.RequestID, emptyIfNil(w.Reply))
	}
	return s.sql.saveExpire, append(args, w.RequestID, emptyIfNil(w.Reply), s.cfg.Retention)
}

func emptyIfNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// refusalError returns the error of a save that replaced nothing, or nil if the record would allow the save.
func (s *Store) refusalError(ctx context.Context, db querier, ref state.Ref, w state.Write) error {
	var version, epoch int64
	err := db.QueryRow(ctx, s.sql.read, ref.Service, []byte(ref.Key)).Scan(&version, &epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: it is not claimed, or no longer", state.ErrConflict)
	case err != nil:
		return fmt.Errorf("%w: and why was not answered: %w", state.ErrConflict, err)
	case epoch > w.Epoch:
		return fmt.Errorf("epoch %d, stored %d: %w", w.Epoch, epoch, state.ErrFenced)
	case version != w.Version:
		return fmt.Errorf("version %d, stored %d: %w", w.Version, version, state.ErrConflict)
	}
	return nil
}

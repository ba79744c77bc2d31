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
	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Errors to test for with errors.Is.
var (
	// ErrBadConfig is matched by every error of [Config.Validate].
	ErrBadConfig = errors.New("bad configuration of the effects")
	// ErrRunning is returned by [Effects.OnceTx] if a call of Once runs the effect at this time. Nothing was done.
	ErrRunning = errors.New("another caller runs the effect outside of a transaction: roll back, and try again later")
)

// DB is the part of pgx that the effects use: a *pgxpool.Pool. A *pgx.Conn serves one caller at a time, and pgx
// closes it when a context ends during a statement.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// minRetention limits the retention.
const minRetention = time.Minute

// Config configures [Effects]. DB is required.
type Config struct {
	// DB leads to the database of the session. It is never closed. No connection of a pool is in use while an effect
	// runs.
	DB DB
	// Retention is the time for which the outcome of an effect is remembered, by the database's clock: a minute or
	// more. A mark takes some 200 bytes beside the result of the effect. Default once.DefaultRetention.
	Retention time.Duration
	// Logger gets one line when the database cannot be reached or refuses writes, and one when it is back.
	// Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.Retention = cmp.Or(c.Retention, once.DefaultRetention)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid.
func (c Config) Validate() error {
	switch {
	case c.DB == nil:
		return fmt.Errorf("%w: Config.DB is nil; make one with pgxpool.New", ErrBadConfig)
	case c.withDefaults().Retention < minRetention:
		return fmt.Errorf("%w: Config.Retention is %v; give it %v or more, or leave it 0 for %v", ErrBadConfig,
			c.Retention, minRetention, once.DefaultRetention)
	}
	return nil
}

// Effects runs effects and keeps their marks. It implements [once.Registry]. All methods are safe for concurrent use.
type Effects struct {
	keeper   *claims.Keeper
	cfg      Config
	db       *pg.DB
	schema   string
	owner    string
	sql      statements
	outcomes atomic.Uint64 // recorded so far, which lets some delete expired marks
}

var _ once.Registry = (*Effects)(nil)

// New returns the effects of a session, or an error that matches [ErrBadConfig]. It sends no request; the table of
// marks is made by [Effects.CreateTable]. Effects of sessions with the same schema exclude each other.
func New(session *pgsession.Session, cfg Config) (*Effects, error) {
	if session == nil {
		return nil, fmt.Errorf("%w: the session is nil; open one with pgsession.Open", ErrBadConfig)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	k := session.Keeper()
	return &Effects{keeper: k, cfg: cfg, db: pg.New(cfg.DB, cfg.Logger), schema: k.Schema(), owner: k.Owner(),
		sql: statementsFor(k.Schema())}, nil
}

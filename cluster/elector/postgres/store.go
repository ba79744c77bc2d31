package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/internal/pg"
)

// Store is a lease store in one row of a table. It is as safe for concurrent use as its DB.
type Store struct {
	db   *pg.DB
	pool pg.Acquirer // nil if the store has a connection or a transaction
	name string

	get, create, update string
}

// maxName is the limit of the other stores, too. An index of PostgreSQL accepts rows of up to 2704 bytes.
const maxName = 512

// Config configures a [Store]. DB and Name are required.
type Config struct {
	// DB is a pool or a connection. It is never closed. Run of an elector takes one connection out of a pool for as
	// long as it runs, on which it listens, and the pool replaces it. Over a connection or a transaction it reads
	// the row every RetryPeriod instead.
	DB DB
	// Table is a table created by [CreateTable]. Default goverse_leases.
	Table pgx.Identifier
	// Name names the row: candidates with the same Table and Name compete. It is UTF-8 without zero bytes, of
	// at most 512 bytes.
	Name string
}

// Validate returns an error that matches elector.ErrBadConfig if the configuration is invalid.
func (c Config) Validate() error {
	switch _, err := quoteTable(c.Table); {
	case err != nil:
		return err
	case c.DB == nil:
		return fmt.Errorf("%w: postgres.Config.DB is nil; make one with pgxpool.New", elector.ErrBadConfig)
	case c.Name == "" || !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0):
		return fmt.Errorf("%w: postgres.Config.Name is %q; give it one in UTF-8, like the task's",
			elector.ErrBadConfig, c.Name)
	case len(c.Name) > maxName:
		return fmt.Errorf("%w: postgres.Config.Name has %d bytes; give it at most %d", elector.ErrBadConfig,
			len(c.Name), maxName)
	}
	return nil
}

// New returns a store, or an error if the configuration is invalid. It sends no request to the database.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := quoteTable(cfg.Table)
	if err != nil {
		return nil, err
	}
	pool, _ := cfg.DB.(pg.Acquirer)
	return &Store{db: pg.New(cfg.DB, nil), pool: pool, name: cfg.Name,
		get: `SELECT version, holder_identity, holder_instance, lease_duration_ns, acquire_time, renew_time,
			leader_transitions
FROM ` + t + ` WHERE name = $1`,
		create: `WITH written AS (
	INSERT INTO ` + t + ` (name, version, holder_identity, holder_instance, lease_duration_ns,
		acquire_time, renew_time, leader_transitions)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING name
)
SELECT pg_notify('` + channel + `', name) FROM written`,
		// A renewal does not notify: it concerns no candidate, and transactions that notify commit one at a time.
		update: `WITH written AS (
	UPDATE ` + t + ` AS now SET version = $2, holder_identity = $3, holder_instance = $4, lease_duration_ns = $5,
		acquire_time = $6, renew_time = $7, leader_transitions = $8
	FROM ` + t + ` AS before
	WHERE now.name = $1 AND now.version = $9 AND before.name = now.name AND before.version = now.version
	RETURNING now.name, now.holder_identity <> before.holder_identity OR
		now.holder_instance <> before.holder_instance AS moved
)
SELECT CASE WHEN moved THEN pg_notify('` + channel + `', name)::text END FROM written`,
	}, nil
}

// channel is notified with the lease's name when a lease gets another holder or none. Stores of all tables share
// it, so a signal may also be that of another table.
const channel = "goverse_leases"

// listenTimeout limits the time until Watch listens, and each check of the connection.
const listenTimeout = 5 * time.Second

// Watch implements [elector.LeaseWatcher] with LISTEN, on a connection of its own that it takes out of the pool. It
// returns nil at once if the store has no pool. Through a proxy that pools transactions, no notifications arrive,
// and changed is called only once.
func (s *Store) Watch(ctx context.Context, changed func()) error {
	if s.pool == nil {
		return nil
	}
	return pg.Subscription{Channel: channel, Timeout: listenTimeout, Begun: changed, Notify: func(name string) {
		if name == s.name {
			changed()
		}
	}}.Listen(ctx, s.pool)
}

// GetLease implements [elector.LeaseStore].
func (s *Store) GetLease(ctx context.Context) (elector.Lease, error) {
	var l elector.Lease
	var ns int64
	err := s.db.QueryRow(ctx, s.get, s.name).Scan(&l.Version, &l.HolderIdentity, &l.HolderInstance, &ns,
		&l.AcquireTime, &l.RenewTime, &l.LeaderTransitions)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return elector.Lease{}, elector.ErrNotFound
	case pg.CodeOf(err) == pg.CodeNoTable:
		return elector.Lease{}, fmt.Errorf("read lease %q: %w; make the table with CreateTable", s.name, err)
	case err != nil:
		return elector.Lease{}, fmt.Errorf("read lease %q: %w", s.name, err)
	}
	l.LeaseDuration, l.AcquireTime, l.RenewTime = time.Duration(ns), l.AcquireTime.UTC(), l.RenewTime.UTC()
	return l, nil
}

// CreateLease implements [elector.LeaseStore].
func (s *Store) CreateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	return s.writeLease(ctx, s.create, lease, elector.ErrExists)
}

// UpdateLease implements [elector.LeaseStore].
func (s *Store) UpdateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	return s.writeLease(ctx, s.update, lease, elector.ErrConflict, lease.Version)
}

// writeLease runs a statement that writes the record with a new version. It returns other if the statement writes
// nothing.
func (s *Store) writeLease(ctx context.Context, statement string, l elector.Lease, other error,
	more ...any) (elector.Lease, error) {
	l.Version = rand.Text() // not a counter: a row that was deleted must not get the same version again
	l.AcquireTime, l.RenewTime =
		l.AcquireTime.UTC().Truncate(time.Microsecond), l.RenewTime.UTC().Truncate(time.Microsecond)
	args := append([]any{s.name, l.Version, l.HolderIdentity, l.HolderInstance,
		int64(l.LeaseDuration), l.AcquireTime, l.RenewTime, l.LeaderTransitions}, more...)
	var tag pgconn.CommandTag
	err := s.db.Write(ctx, func(q pg.Querier) (err error) {
		tag, err = q.Exec(ctx, statement, args...)
		return err
	})
	switch {
	case pg.CodeOf(err) == pg.CodeSerializationFailure: // another write was faster, with a stricter isolation level
		return elector.Lease{}, other
	case err != nil:
		return elector.Lease{}, fmt.Errorf("write lease %q: %w", s.name, err)
	case tag.RowsAffected() == 0:
		return elector.Lease{}, other
	}
	return l, nil
}

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
	name string

	get, create, update string
}

// maxName is the limit of the other stores, too. An index of PostgreSQL accepts rows of up to 2704 bytes.
const maxName = 512

// Config configures a [Store]. DB and Name are required.
type Config struct {
	// DB is a pool or a connection. It is never closed.
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
	return &Store{db: pg.New(cfg.DB, nil), name: cfg.Name,
		get: `SELECT version, holder_identity, holder_instance, lease_duration_ns, acquire_time, renew_time,
			leader_transitions
FROM ` + t + ` WHERE name = $1`,
		create: `INSERT INTO ` + t + ` (name, version, holder_identity, holder_instance, lease_duration_ns,
			acquire_time, renew_time, leader_transitions)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING`,
		update: `UPDATE ` + t + ` SET version = $2, holder_identity = $3, holder_instance = $4, lease_duration_ns = $5,
acquire_time = $6, renew_time = $7, leader_transitions = $8 WHERE name = $1 AND version = $9`,
	}, nil
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

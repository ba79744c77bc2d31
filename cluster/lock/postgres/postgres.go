// Package postgres keeps the locks of package lock in PostgreSQL, on a session of package pgsession: any number of
// locks on three connections, first come, first served, exclusive or shared.
//
//	locks := postgres.New(session)
//	held, err := locks.Acquire(ctx, "invoice/42")
//	...
//	err = held.Release(ctx)
//
// A write to the same database can be part of a transaction that commits only while the lock is held; see [Fence].
// Systems elsewhere compare the token.
//
// # What is not promised
//
// What package pgsession does not promise. The token is not a CreateRevision of etcd's: a lock that moves from etcd to
// PostgreSQL begins with other tokens. [lock.Held.Guard] and Txn concern etcd, and are of no use here.
//
// Experimental: the API of this package may change in any minor release.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Locks is a registry of locks in PostgreSQL. It implements [lock.LockRegistry].
type Locks struct {
	keeper   *claims.Keeper
	advisory func(name string) (key int64, ok bool)
}

// Option configures [New].
type Option func(*Locks)

// BesideAdvisoryLocks makes each holder also hold the advisory lock of PostgreSQL with the number that key returns for
// the lock's name, if it returns one; in shared mode if the lock is shared. So a program can be moved over to these
// locks beside running copies that use pg_try_advisory_lock or pg_advisory_lock with a fixed key. A caller that has the
// lock waits for the advisory lock, which it tries every 50 ms. It is held by the session's own connection and ends
// with the session, which may be later than the holder's deadline.
func BesideAdvisoryLocks(key func(name string) (key int64, ok bool)) Option {
	return func(l *Locks) { l.advisory = key }
}

// New returns the locks of a session. It sends no request. Locks of sessions with the same schema exclude each other.
func New(s *pgsession.Session, opts ...Option) *Locks {
	l := &Locks{keeper: s.Keeper(), advisory: func(string) (int64, bool) { return 0, false }}
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// Acquire implements [lock.LockRegistry].
func (l *Locks) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	c, err := l.claim(ctx, name, false, opts)
	if err != nil {
		return nil, err
	}
	return held{c}, nil
}

// TryAcquire implements [lock.LockRegistry].
func (l *Locks) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	c, err := l.claim(ctx, name, true, opts)
	switch {
	case errors.Is(err, claims.ErrRefused):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return held{c}, true, nil
}

// prefix sets the names of locks apart from those of elections.
const prefix = "lock/"

func (l *Locks) claim(ctx context.Context, name string, try bool, opts []lock.Option) (*claims.Claim, error) {
	var o lock.Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := state.CheckName("lock", name); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	spec := claims.Spec{Name: prefix + name, Shared: o.Shared, Try: try}
	if key, ok := l.advisory(name); ok {
		spec.Advisory = &claims.Advisory{Key: key, Shared: o.Shared}
	}
	return l.keeper.Acquire(ctx, spec)
}

// held implements lock.Held.
type held struct{ *claims.Claim }

func (h held) Name() string { return h.Claim.Name()[len(prefix):] }

func (h held) Guard() []clientv3.Cmp { return nil }

func (h held) Txn(context.Context) clientv3.Txn {
	return txn.Failed(fmt.Errorf("lock %q is kept in PostgreSQL: etcd cannot guard a transaction with it; use Fence of "+
		"package cluster/lock/postgres", h.Name()))
}

func (h held) Release(ctx context.Context) error {
	lost, err := h.Claim.Release(ctx)
	if lost != nil {
		return h.lostError(lost)
	}
	return err
}

func (h held) lostError(why error) error {
	return &lock.LostError{Name: h.Name(), Token: h.Token(), Err: why}
}

// Querier is a transaction: a pgx.Tx, for example.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ErrForeign is returned for a lock that is not kept in PostgreSQL.
var ErrForeign = errors.New("the lock is not one of package cluster/lock/postgres")

// Fence lets a transaction commit only while the lock is held: no other caller gets the lock before the transaction has
// ended. It returns an error that matches lock.ErrLost if the lock is not held any more; then roll the transaction
// back. The transaction must be in the database that keeps the locks, and its user must be allowed to update the table
// of claims. Keep it short: the next holder waits for it. Fence blocks for one round trip, or until ctx ends.
func Fence(ctx context.Context, tx Querier, l lock.Held) error {
	h, ok := l.(held)
	if !ok {
		return ErrForeign
	}
	stands, err := h.LockRow(ctx, tx)
	switch {
	case err != nil:
		return fmt.Errorf("fence a transaction with lock %q: %w", h.Name(), err)
	case !stands:
		return h.lostError(cmp.Or(h.EndCause(), lock.ErrKeyLost))
	}
	return nil
}

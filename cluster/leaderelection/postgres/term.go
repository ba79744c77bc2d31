package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/state/txn"
)

// term implements leaderelection.Term.
type term struct {
	c        *Candidate
	claim    *claims.Claim
	acquired time.Time
	scope    *termscope.Scope
	idle     chan struct{} // closed when the term is over and its functions are waited for no longer

	resigned context.Context // ends when the term is to end; its cause is the reason
	resign   context.CancelCauseFunc
}

func (t *term) Token() int64             { return t.claim.Token() }
func (t *term) Key() string              { return t.claim.Key() }       // for goversed exec
func (t *term) SessionID() int64         { return t.claim.SessionID() } // the same
func (t *term) AcquiredAt() time.Time    { return t.acquired }
func (t *term) Context() context.Context { return t.scope.Context() }
func (t *term) Valid() bool              { return t.c.ownTerm() == t }
func (t *term) Guard() []clientv3.Cmp    { return nil }

func (t *term) Txn(context.Context) clientv3.Txn {
	return txn.Failed(fmt.Errorf("election %q is held in PostgreSQL: etcd cannot guard a transaction with it; use Fence "+
		"of package cluster/leaderelection/postgres", t.c.name))
}

func (t *term) overError(why error) error {
	return &leaderelection.TermOverError{Election: t.c.name, Token: t.Token(), Reason: reasonOf(why), Err: why}
}

// Querier is a transaction: a pgx.Tx, for example.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ErrForeign is returned for a term that is not of this package.
var ErrForeign = errors.New("the term is not one of package cluster/leaderelection/postgres")

// Fence lets a transaction commit only while the term lasts: no other candidate leads before the transaction has ended.
// It returns an error that matches leaderelection.ErrTermOver if the term is over; then roll the transaction back. The
// transaction must be in the database that keeps the elections. Keep it short: the next leader waits for it. Fence
// blocks for one round trip, or until ctx ends.
func Fence(ctx context.Context, tx Querier, of leaderelection.Term) error {
	t, ok := of.(*term)
	if !ok {
		return ErrForeign
	}
	stands, err := t.claim.LockRow(ctx, tx)
	switch {
	case err != nil:
		return fmt.Errorf("fence a transaction with the term of election %q: %w", t.c.name, err)
	case !stands:
		return t.scope.OverError(leaderelection.ErrKeyLost)
	}
	return nil
}

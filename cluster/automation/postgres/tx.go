package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
)

type txKey struct{}

// errNoTx reports a mistake in the program; no item causes it.
var errNoTx = fmt.Errorf("%w: postgres.Tx: there is no transaction in this context; give it that of Execute or "+
	"OnPark, of an automation whose Source is a *postgres.Source", processor.ErrUnavailable)

// Tx returns the transaction of the Execute or OnPark that is called with ctx. Writes in it take effect together with
// the mark of the item. Neither commit it nor roll it back. Tx panics for any other ctx, with an error that matches
// processor.ErrUnavailable.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic(errNoTx)
	}
	return tx
}

const (
	rollbackTimeout = 2 * time.Second
	// maxError limits a stored error, in bytes.
	maxError = 4 << 10
)

// tryInTx runs fn and then the statements of batch within a savepoint, to which the transaction returns if either
// fails. Deferred constraints are checked at the end, so that a violation counts against the item.
func (s *Source[I]) tryInTx(ctx context.Context, tx pgx.Tx, batch *pgx.Batch,
	fn func(ctx context.Context) error) error {
	point, err := within(ctx, s.timeout, tx.Begin)
	if err != nil {
		return classifyError(tx, err)
	}
	ended := false
	defer func() {
		if !ended {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			_ = point.Rollback(ctx)
		}
	}()
	if err := fn(context.WithValue(ctx, txKey{}, point)); err != nil {
		return classifyError(tx, err)
	}
	_, err = within(context.WithoutCancel(ctx), s.timeout, func(ctx context.Context) (struct{}, error) {
		batch.Queue("set constraints all immediate")
		if err := point.SendBatch(ctx, batch).Close(); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, point.Commit(ctx)
	})
	if err != nil {
		return classifyError(tx, fmt.Errorf("after Execute: %w", err))
	}
	ended = true
	return nil
}

func within[T any](ctx context.Context, d time.Duration, fn func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return fn(ctx)
}

// classifyError marks errors of the server that the item did not cause, so that they do not count against it.
func classifyError(tx pgx.Tx, err error) error {
	switch code := pg.CodeOf(err); {
	case code == pg.CodeIdleTimeout, code == pg.CodeQueryCanceled: // the item itself may take so long
		return err
	case pg.Transient(code):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	case code == "" && tx.Conn().IsClosed() && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	}
	return err
}

// withHint adds the remedy if a table is missing.
func withHint(err error) error {
	if pg.CodeOf(err) == pg.CodeNoTable {
		return fmt.Errorf("%w; make the table of failures with CreateTables", err)
	}
	return err
}

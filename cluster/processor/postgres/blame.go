package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
)

// classifyWorkError classifies an error of work. Errors of the server that the event did not cause must not count
// against it.
func classifyWorkError(ctx context.Context, tx pgx.Tx, name string, err error) error {
	switch code := pg.CodeOf(err); {
	case code == pg.CodeIdleTimeout: // the whole batch caused it
		return fmt.Errorf("processor %q: %w: %w", name, processor.ErrRefused, err)
	case code == pg.CodeQueryCanceled: // the event itself may take so long
		return err
	case pg.Transient(code):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	case code == "" && tx.Conn().IsClosed() && !statementCutShort(ctx, err):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	}
	return err
}

// statementCutShort reports whether the handler gave a statement a shorter deadline than its own, which closes the
// connection. If the database is unreachable instead, the next transaction cannot begin, and no attempt counts.
func statementCutShort(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// classifyCommitError distinguishes a commit that the server refused because of the handler's writes from a connection
// that failed.
func classifyCommitError(name string, err error) error {
	if code := pg.CodeOf(err); code != "" && !pg.Transient(code) && code[:2] != "XX" { // class XX: internal errors
		return fmt.Errorf("processor %q: %w: %w", name, processor.ErrRefused, err)
	}
	return fmt.Errorf("commit the transaction of processor %q: %w", name, err)
}

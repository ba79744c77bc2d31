package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
)

// Codes of PostgreSQL's, where the class does not say enough.
const (
	onStandby   = "25006" // only reading
	idleTooLong = "25P03"
	locked      = "55P03"
	canceled    = "57014" // by statement_timeout, or by hand
)

// inWork says whose fault it is that work failed: what the server has refused of an event that
// is all right must not count against it.
func inWork(ctx context.Context, tx pgx.Tx, name string, err error) error {
	switch code := pg.CodeOf(err); {
	case code == idleTooLong: // by all that is in the batch
		return fmt.Errorf("processor %q: %w: %w", name, processor.ErrRefused, err)
	case code == canceled: // it may be the event that takes so long
		return err
	case transient(code):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	case code == "" && tx.Conn().IsClosed() && !limited(ctx, err):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	}
	return err
}

// limited: the handler gave a statement less time than it has itself, which closes the connection.
// If the database is away, the next transaction cannot begin, and that counts for nothing.
func limited(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// blame distinguishes what the server refused to commit, which what the handler did brought about, from
// a connection that failed.
func blame(name string, err error) error {
	if code := pg.CodeOf(err); code != "" && !transient(code) && code[:2] != "XX" { // internal
		return fmt.Errorf("processor %q: %w: %w", name, processor.ErrRefused, err)
	}
	return fmt.Errorf("commit the transaction of processor %q: %w", name, err)
}

// transient: the server is not well, or somebody else was in the way.
func transient(code string) bool {
	switch code {
	case onStandby, pg.NotSerializing, pg.Deadlock, locked:
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58": // connection, resources, operator, system
		return true
	}
	return false
}

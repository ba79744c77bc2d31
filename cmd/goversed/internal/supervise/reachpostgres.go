//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// reachPauses are the pauses before PostgreSQL is tried again.
var reachPauses = backoff.Policy{First: 100 * time.Millisecond, Last: 2 * time.Second}

// reachPostgres retries until a session is open, or ctx ends. Errors are ctx's cause, and errors that retrying cannot
// cure.
func (r *runner) reachPostgres(ctx context.Context) (*claim, error) {
	again := backoff.Backoff{Policy: reachPauses}
	for {
		c, err := r.openSession(ctx)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			if r.lastReachError == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				r.lastReachError = err
			}
			return nil, context.Cause(ctx)
		case refusesForGood(err):
			return nil, err
		}
		r.lastReachError = err
		if again.Failures() == 0 {
			r.cfg.Logger.Warn("could not open a session in PostgreSQL, retrying", "error", logtext.OneLine(err))
		}
		if !wait.For(ctx, again.Next()) {
			return nil, context.Cause(ctx)
		}
	}
}

// openSession opens a session, unless this process would wait for itself.
func (r *runner) openSession(ctx context.Context) (*claim, error) {
	switch nested, err := r.cfg.waitsForItself(ctx); {
	case err != nil:
		return nil, err
	case nested:
		return nil, r.nestedError()
	}
	return newPostgresClaim(ctx, r.cfg)
}

// refusesForGood reports whether PostgreSQL would refuse the session again: for want of a password, a right or a
// database, or because of what stands in between.
func refusesForGood(err error) bool {
	for _, target := range []error{pgsession.ErrBadConfig, pgsession.ErrPooled, errNested} {
		if errors.Is(err, target) {
			return true
		}
	}
	code := codeOf(err)
	for _, class := range []string{"28", "3D", "3F", "42"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// codeOf returns the code of an error of PostgreSQL, "" if it is none.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// ignoreNoTables returns nil if an error says that the tables do not exist, so that nothing is held.
func ignoreNoTables(err error) error {
	if code := codeOf(err); code == "42P01" || code == "3F000" {
		return nil
	}
	return err
}

package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATE codes of PostgreSQL that several stores use.
const (
	readOnly          = "25006"
	statementExists   = "42P05"
	noStatement       = "26000"
	NoTable           = "42P01"
	NotSerializing    = "40001"
	Deadlock          = "40P01"
	CompletionUnknown = "40003"
	protocolViolation = "08P01"
)

// CodeOf returns the SQLSTATE of an error, which has five characters, or "" if the server reported none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// Refused reports whether the server refused a statement because the session is read-only. The statement had no
// effect, and a session of the primary would accept it.
func Refused(err error) bool { return CodeOf(err) == readOnly }

// useless reports whether an error shows that the connection, and the others in its pool, are of no further
// use: the session is read-only, or the server or a proxy before it is shutting down.
func useless(err error) bool {
	switch code := CodeOf(err); code {
	case "", protocolViolation: // a pooler that mixes up statements causes protocolViolation, too
		return false
	case readOnly, "57P01", "57P02", "57P03", "57P04", "57P05":
		return true
	default:
		return code[:2] == "08"
	}
}

// unreachable reports whether the database could not be reached or went away.
func unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return useless(err) || connecting || pgconn.SafeToRetry(err) || CodeOf(err) == "" && pgconn.Timeout(err)
}

// pooledError is the error of a statement that was prepared on one server connection and executed on another.
type pooledError struct{ error }

func (e pooledError) Error() string {
	return e.error.Error() + "; is there a pooler like pgbouncer that pools transactions? Then add " +
		"default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the connection string"
}

func (e pooledError) Unwrap() error { return e.error }

// Explain adds the remedy to an error that has one. It adds it only once.
func Explain(err error) error {
	switch CodeOf(err) {
	case statementExists, noStatement, protocolViolation:
		if _, said := errors.AsType[pooledError](err); !said {
			return pooledError{err}
		}
	}
	return err
}

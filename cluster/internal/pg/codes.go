package pg

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATE codes of PostgreSQL that several stores use.
const (
	codeReadOnly             = "25006"
	codeDuplicateStatement   = "42P05"
	codeNoStatement          = "26000"
	CodeNoTable              = "42P01"
	CodeNoColumn             = "42703"
	CodeNoRight              = "42501"
	CodeSerializationFailure = "40001"
	CodeDeadlock             = "40P01"
	CodeCompletionUnknown    = "40003"
	CodeLockNotAvailable     = "55P03"
	CodeIdleTimeout          = "25P03" // of a transaction without a statement
	CodeQueryCanceled        = "57014" // by statement_timeout, or by an operator
	codeProtocolViolation    = "08P01"
)

// CodeOf returns the SQLSTATE of an error, which has five characters, or "" if the server reported none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// RefusedReadOnly reports whether the server refused a statement because the session is read-only. The statement had no
// effect, and a session of the primary would accept it.
func RefusedReadOnly(err error) bool { return CodeOf(err) == codeReadOnly }

// connUseless reports whether an error shows that the connection, and the others in its pool, are of no further
// use: the session is read-only, or the server or a proxy before it is shutting down.
func connUseless(err error) bool {
	switch code := CodeOf(err); code {
	case "", codeProtocolViolation: // a pooler that mixes up statements causes codeProtocolViolation, too
		return false
	case codeReadOnly, "57P01", "57P02", "57P03", "57P04", "57P05":
		return true
	default:
		return code[:2] == "08"
	}
}

// dbUnreachable reports whether the database could not be reached or went away.
func dbUnreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connUseless(err) || connecting || pgconn.SafeToRetry(err) || CodeOf(err) == "" && pgconn.Timeout(err)
}

// pooledError is the error of a statement that was prepared on one server connection and executed on another.
type pooledError struct{ error }

func (e pooledError) Error() string {
	return e.error.Error() + "; is there a pooler like pgbouncer that pools transactions? Then add " +
		"default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the connection string"
}

func (e pooledError) Unwrap() error { return e.error }

// WithRemedy adds the remedy to an error that has one. It adds it only once.
func WithRemedy(err error) error {
	switch CodeOf(err) {
	case codeDuplicateStatement, codeNoStatement, codeProtocolViolation:
		if _, said := errors.AsType[pooledError](err); !said {
			return pooledError{err}
		}
	}
	return err
}

// RefusedForGood reports whether the server would refuse the same statement again: for want of rights, tables or
// functions, for a value, or for a limit of PostgreSQL's.
func RefusedForGood(err error) bool {
	code := CodeOf(err)
	return code != "" && slices.Contains([]string{"22", "23", "28", "3D", "3F", "42", "54"}, code[:2])
}

// Transient reports whether a code means that the server is unwell or another transaction was in the way, and not that
// the statement is at fault.
func Transient(code string) bool {
	switch code {
	case codeReadOnly, CodeSerializationFailure, CodeDeadlock, CodeLockNotAvailable:
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58": // connection, resources, operator, system
		return true
	}
	return false
}

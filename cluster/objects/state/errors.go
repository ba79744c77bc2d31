package state

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The errors of this package and of every [Store]; test for them with errors.Is. Each has a GRPCStatus, so a
// method that returns one, directly or wrapped, ends with the code listed in the package comment.
var (
	// ErrFenced is returned if an owner with a larger epoch has claimed the object. Nothing was stored.
	ErrFenced error = &fault{codes.Unavailable, "another owner has claimed the object with a larger epoch, and nothing " +
		"was stored: deactivate the object here and repeat the call, which goes to that owner"}
	// ErrConflict is returned if the record does not have the version that was to be replaced. Nothing was
	// stored.
	ErrConflict error = &fault{codes.Aborted, "the object's record was loaded, saved or removed meanwhile, and nothing " +
		"was stored: Reload the state or deactivate the object, and repeat the call"}
	// ErrOutcomeUnknown is returned if the request was sent and no answer came.
	ErrOutcomeUnknown error = &fault{codes.Unknown, "the state may have been stored or not: Reload it or deactivate the " +
		"object; repeat the call only with the same request id"}
	// ErrStale is returned if an earlier save was refused or has an unknown outcome. Nothing was stored.
	ErrStale error = &fault{codes.Unavailable, "the state in memory is not known to be the stored one, and nothing was " +
		"stored: Reload it or deactivate the object, and repeat the call"}
	// ErrUnavailable is returned if the store certainly did not carry out the request.
	ErrUnavailable error = &fault{codes.Unavailable, "the store of the states did not do it, and nothing was stored: " +
		"try again"}
	// ErrTooLarge is returned if the state or the reply is too large for the store. Nothing was stored.
	ErrTooLarge error = &fault{codes.ResourceExhausted, "the state or the reply is too large for its store, and nothing " +
		"was stored: keep less in one object, or use another store"}
	// ErrBadRequestID is returned for an invalid request id; see [CheckRequestID].
	ErrBadRequestID error = &fault{codes.InvalidArgument, "bad request id: use 1 to 200 printable ASCII characters, " +
		"like a UUID"}
	// ErrRequestIDReused is returned if the stored reply for the request id has another type.
	ErrRequestIDReused error = &fault{codes.InvalidArgument, "the request id was used for another kind of call to this " +
		"object: use a new one for each call, and the same one only to repeat it"}
	// ErrBadRef is returned for an invalid object name; see [Ref.Validate].
	ErrBadRef error = &fault{codes.InvalidArgument, "bad object name: use a service of 1 to 512 bytes of UTF-8 without " +
		"zero bytes, and a key of 1 to 1024 bytes"}
	// ErrUnreadable is returned if the stored bytes cannot be decoded as the message, or if the message to
	// store cannot be encoded. Nothing was stored.
	ErrUnreadable error = &fault{codes.Internal, "the state or the reply cannot be converted: compare the message's " +
		"type with what is stored"}
	// ErrBadConfig is returned if a store's configuration is invalid.
	ErrBadConfig error = &fault{codes.FailedPrecondition, "bad configuration"}
)

// errInDo reports a mistake in the program.
var errInDo error = &fault{codes.Internal, "Save and Do cannot be called by fn of Do, which saves when fn has " +
	"returned: leave the call out"}

// fault is an error with a gRPC code.
type fault struct {
	code codes.Code
	text string
}

func (f *fault) Error() string { return f.text }

// StoreError marks the errors with a text that callers of an object may see. Callers do not see the text of
// errors that wrap it, such as a database's; the log of the object's node has that.
func (f *fault) StoreError() {}

// GRPCStatus makes gRPC send the code.
func (f *fault) GRPCStatus() *status.Status { return status.New(f.code, f.text) }

// matchesAny reports whether err matches one of targets.
func matchesAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// outcomeErrors lists the errors by which a store reports the outcome of a request.
var outcomeErrors = []error{ErrFenced, ErrConflict, ErrOutcomeUnknown, ErrUnavailable, ErrTooLarge, ErrBadRequestID,
	ErrBadRef, ErrUnreadable}

// saveError wraps an error of Store.Save. If err does not report the outcome, the outcome is unknown.
func saveError(ref Ref, err error) error {
	if matchesAny(err, outcomeErrors...) {
		return fmt.Errorf("save the state of %v: %w", ref, err)
	}
	return fmt.Errorf("save the state of %v: %w: %w", ref, ErrOutcomeUnknown, err)
}

// readError wraps an error of Store.Load or Store.Reply, which store nothing for the caller.
func readError(what string, ref Ref, err error) error {
	if matchesAny(err, outcomeErrors...) {
		return fmt.Errorf("%s of %v: %w", what, ref, err)
	}
	return fmt.Errorf("%s of %v: %w: %w", what, ref, ErrUnavailable, err)
}

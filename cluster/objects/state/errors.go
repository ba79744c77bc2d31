package state

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The errors of this package and of every [Store], to test for with errors.Is. Each has a GRPCStatus, so
// that a method which returns it, as it is or wrapped, ends with the code that the package comment lists.
var (
	// ErrFenced: an owner with a larger epoch has claimed the object. Nothing was stored.
	ErrFenced error = &fault{codes.Unavailable, "another owner has claimed the object with a larger epoch, and nothing " +
		"was stored: deactivate the object here and repeat the call, which goes to that owner"}
	// ErrConflict: the record is not the version that was to be replaced. Nothing was stored.
	ErrConflict error = &fault{codes.Aborted, "the object's record was loaded, saved or removed meanwhile, and nothing " +
		"was stored: Reload the state or deactivate the object, and repeat the call"}
	// ErrOutcomeUnknown: the request was sent and its answer did not come.
	ErrOutcomeUnknown error = &fault{codes.Unknown, "the state may have been stored or not: Reload it or deactivate the " +
		"object; repeat the call only with the same request id"}
	// ErrStale: an earlier save was refused, or its outcome is not known. Nothing was stored.
	ErrStale error = &fault{codes.Unavailable, "the state in memory is not known to be the stored one, and nothing was " +
		"stored: Reload it or deactivate the object, and repeat the call"}
	// ErrUnavailable: the store has not done it, for certain.
	ErrUnavailable error = &fault{codes.Unavailable, "the store of the states did not do it, and nothing was stored: " +
		"try again"}
	// ErrTooLarge: the store takes no state, or reply, of that size. Nothing was stored.
	ErrTooLarge error = &fault{codes.ResourceExhausted, "the state or the reply is too large for its store, and nothing " +
		"was stored: keep less in one object, or use another store"}
	// ErrBadRequestID: see [CheckRequestID].
	ErrBadRequestID error = &fault{codes.InvalidArgument, "bad request id: use 1 to 200 printable ASCII characters, " +
		"like a UUID"}
	// ErrRequestIDReused: the id's stored reply is a message of another type.
	ErrRequestIDReused error = &fault{codes.InvalidArgument, "the request id was used for another kind of call to this " +
		"object: use a new one for each call, and the same one only to repeat it"}
	// ErrBadRef: see [Ref.Validate].
	ErrBadRef error = &fault{codes.InvalidArgument, "bad object name: use a service of 1 to 512 bytes of UTF-8 without " +
		"zero bytes, and a key of 1 to 1024 bytes"}
	// ErrUnreadable: what is stored is no such message, or what is to be stored is none. Nothing was stored.
	ErrUnreadable error = &fault{codes.Internal, "the state or the reply cannot be converted: compare the message's " +
		"type with what is stored"}
	// ErrBadConfig: a store cannot be made of its configuration.
	ErrBadConfig error = &fault{codes.FailedPrecondition, "bad configuration"}
)

// errInDo is the program's mistake.
var errInDo error = &fault{codes.Internal, "Save and Do cannot be called by fn of Do, which saves when fn has " +
	"returned: leave the call out"}

// fault is an error with a gRPC code.
type fault struct {
	code codes.Code
	text string
}

func (f *fault) Error() string { return f.text }

// StoreError marks the errors whose text is all that callers of an object get of it: what wraps it, like a database's
// own words, is in the log of the object's node.
func (f *fault) StoreError() {}

// GRPCStatus makes gRPC send the code.
func (f *fault) GRPCStatus() *status.Status { return status.New(f.code, f.text) }

// of reports whether an error matches one of targets.
func of(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// classified are those of a store's errors that say what became of a request.
var classified = []error{ErrFenced, ErrConflict, ErrOutcomeUnknown, ErrUnavailable, ErrTooLarge, ErrBadRequestID,
	ErrBadRef, ErrUnreadable}

// saveError makes the worst of an error of Store.Save that does not say what became of it.
func saveError(ref Ref, err error) error {
	if of(err, classified...) {
		return fmt.Errorf("save the state of %v: %w", ref, err)
	}
	return fmt.Errorf("save the state of %v: %w: %w", ref, ErrOutcomeUnknown, err)
}

// readError is an error of Store.Load or Store.Reply: nothing of the caller's was stored.
func readError(what string, ref Ref, err error) error {
	if of(err, classified...) {
		return fmt.Errorf("%s of %v: %w", what, ref, err)
	}
	return fmt.Errorf("%s of %v: %w: %w", what, ref, ErrUnavailable, err)
}

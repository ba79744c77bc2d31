package state

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Store keeps the records of objects. All methods are safe for concurrent use, by any number of processes,
// and block until the store has answered, a time-out of its own has passed, or ctx has ended; then the error
// matches that of ctx. Package statetest says what a store has to do.
type Store interface {
	// Load claims the object for epoch and returns its record, under a version that was never there before:
	// from then on no save succeeds whose epoch is smaller (ErrFenced), or whose version is another one
	// (ErrConflict), also if its request is still in flight. If the stored epoch is greater than epoch, the
	// error is ErrFenced and nothing changes. A claim is kept for an object without a state, too.
	Load(ctx context.Context, ref Ref, epoch int64) (Record, error)
	// Save replaces the record, or nothing, in one step: only if the stored version is w.Version (else
	// ErrConflict, also if there is no record), and the stored epoch is not greater than w.Epoch (else
	// ErrFenced, whatever the version). It returns the new version.
	//
	// Nothing was stored either if the error matches ErrUnavailable, ErrTooLarge, ErrBadRef, ErrBadRequestID or
	// ErrUnreadable. After all others that is not known; they should match ErrOutcomeUnknown. The store keeps
	// none of w's slices.
	Save(ctx context.Context, ref Ref, w Write) (version int64, err error)
	// Reply returns the reply that was stored with a save of that request id; ok is false if there is none, or
	// none any more. It does not claim the object.
	Reply(ctx context.Context, ref Ref, requestID string) (reply []byte, ok bool, err error)
}

// Ref names an object.
type Ref struct {
	// Service is the gRPC service's full name, like "shop.v1.Cart".
	Service string
	// Key is the object's, of any bytes.
	Key string
}

// maxService and maxKey, in bytes, fit into the index of a database.
const (
	maxService = 512
	maxKey     = 1024
)

// Validate reports whether a store can keep the object; errors match [ErrBadRef]. Load and stores call it.
func (r Ref) Validate() error {
	switch {
	case r.Service == "" || len(r.Service) > maxService || !utf8.ValidString(r.Service) ||
		strings.ContainsRune(r.Service, 0):
		return fmt.Errorf("%w: the service is %.80q, of %d bytes", ErrBadRef, r.Service, len(r.Service))
	case r.Key == "" || len(r.Key) > maxKey:
		return fmt.Errorf("%w: the key is %.80q, of %d bytes", ErrBadRef, r.Key, len(r.Key))
	}
	return nil
}

// String is for logs and errors.
func (r Ref) String() string { return fmt.Sprintf("%s %.80q", r.Service, r.Key) }

// Record is what a store has of an object.
type Record struct {
	// Version is another one after every Load and Save, and never the same again.
	Version int64
	// Found: there is a state; it may have no bytes.
	Found bool
	// Value is the state, of which the caller may do what it likes.
	Value []byte
}

// Write is what a save stores.
type Write struct {
	// Version is the one to be replaced: that of the last Load or Save.
	Version int64
	// Epoch is that of the owner.
	Epoch int64
	// Value is the new state.
	Value []byte
	// Delete removes the state instead. The claim stays, and so do the replies.
	Delete bool
	// RequestID, unless it is empty, is what Reply is stored under, together with the state. A reply that is
	// stored under it already is replaced: the version is what keeps a call from being carried out twice.
	RequestID string
	Reply     []byte
}

// Validate reports whether a store can keep it; errors match [ErrBadRequestID]. Stores call it.
func (w Write) Validate() error {
	if w.RequestID == "" {
		return nil
	}
	return CheckRequestID(w.RequestID)
}

package state

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Store keeps the records of objects. All methods are safe for concurrent use by any number of processes. They
// block until the store has answered, its own time-out has passed, or ctx has ended; in the last case the error
// matches that of ctx. Package statetest checks an implementation.
type Store interface {
	// Load claims the object for epoch and returns its record under a version that never existed before. From
	// then on a save fails if its epoch is smaller (ErrFenced) or it names another version (ErrConflict), even
	// if its request is already in flight. If the stored epoch is larger than epoch, Load returns ErrFenced and
	// changes nothing. The claim is kept even if the object has no state.
	Load(ctx context.Context, ref Ref, epoch int64) (Record, error)
	// Save replaces or removes the record in one step. It requires that the stored version is w.Version;
	// otherwise, or if there is no record, it returns ErrConflict. It requires that the stored epoch is not
	// larger than w.Epoch; otherwise it returns ErrFenced, whatever the version. It returns the new version.
	//
	// Nothing was stored either if the error matches ErrUnavailable, ErrTooLarge, ErrBadRef, ErrBadRequestID or
	// ErrUnreadable. After any other error the outcome is unknown; such errors should match ErrOutcomeUnknown.
	// The store must not keep w's slices.
	Save(ctx context.Context, ref Ref, w Write) (version int64, err error)
	// Reply returns the reply that was stored with a save of the given request id. ok is false if there is none
	// or it has expired. Reply does not claim the object.
	Reply(ctx context.Context, ref Ref, requestID string) (reply []byte, ok bool, err error)
}

// Ref names an object.
type Ref struct {
	// Service is the full name of the gRPC service, such as "shop.v1.Cart".
	Service string
	// Key is the object's key, of any bytes.
	Key string
}

// maxService and maxKey are in bytes. They fit into the index of a database.
const (
	maxService = 512
	maxKey     = 1024
)

// Validate returns an error that matches [ErrBadRef] if stores cannot keep the object. Load and stores call it.
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

// String returns the name for logs and errors.
func (r Ref) String() string { return fmt.Sprintf("%s %.80q", r.Service, r.Key) }

// Record is the stored record of an object.
type Record struct {
	// Version changes with every Load and Save and is never used again.
	Version int64
	// Found reports whether there is a state. A state may have no bytes.
	Found bool
	// Value is the state. It belongs to the caller.
	Value []byte
}

// Write describes a save.
type Write struct {
	// Version is the version to replace: that of the last Load or Save.
	Version int64
	// Epoch is the owner's epoch.
	Epoch int64
	// Value is the new state.
	Value []byte
	// Delete removes the state instead. The claim and the replies stay.
	Delete bool
	// RequestID, unless empty, is the id under which Reply is stored together with the state. It replaces a
	// reply that is stored under the same id: it is the version that keeps a call from taking effect twice.
	RequestID string
	Reply     []byte
}

// Validate returns an error that matches [ErrBadRequestID] if the request id is invalid. Stores call it.
func (w Write) Validate() error {
	if w.RequestID == "" {
		return nil
	}
	return CheckRequestID(w.RequestID)
}

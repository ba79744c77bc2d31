package elector

import (
	"context"
	"errors"
	"time"
)

// The errors of a [LeaseStore], to test for with errors.Is.
var (
	// ErrNotFound: the store has no record.
	ErrNotFound = errors.New("there is no lease record")
	// ErrExists: a record was to be created, and there is one.
	ErrExists = errors.New("there is a lease record already")
	// ErrConflict: the record is not the one that was to be replaced, or there is none.
	ErrConflict = errors.New("the lease record was changed meanwhile")
)

// Lease is the record that candidates compete for. What it says about time is what its writer
// believed; no other process may judge by it.
type Lease struct {
	// HolderIdentity is the CandidateID of who holds the lease; "" is nobody.
	HolderIdentity string
	// HolderInstance distinguishes two processes that were given the same CandidateID. The elector
	// draws it.
	HolderInstance string
	// LeaseDuration is how long others have to see the record unchanged, each by its own
	// clock, before they may take it. A store keeps it exactly.
	LeaseDuration time.Duration
	// AcquireTime is when the term began and RenewTime when the record was last written, by
	// the holder's wall clock, for people. A store keeps them to the microsecond at least.
	AcquireTime, RenewTime time.Time
	// LeaderTransitions is the number of the term: larger than that of every term before,
	// no matter which one led. It is the fencing token.
	LeaderTransitions int64
	// Version is drawn by the store at each write, and never used again, not even for a
	// record that was deleted and made anew. To others it is opaque.
	Version string
}

// LeaseStore keeps one record. Its reads see every write that was confirmed before they began
// (a replica that lags is no store), and its writes are each made whole or not at all.
//
// All methods are safe for concurrent use and end when ctx does. What a write that failed with
// any error but the named ones has done is open: it may even be made later. The conformance
// suite is package electortest.
type LeaseStore interface {
	// GetLease returns the record, or ErrNotFound.
	GetLease(ctx context.Context) (Lease, error)
	// CreateLease writes the first record, if there is none, and returns it with its Version;
	// that of the argument does not count. ErrExists: there is one.
	CreateLease(ctx context.Context, lease Lease) (Lease, error)
	// UpdateLease writes the record if the one that the store has is of lease.Version,
	// comparing and writing in one step, and returns it with its new Version. ErrConflict:
	// the store has another one, or none.
	UpdateLease(ctx context.Context, lease Lease) (Lease, error)
}

// LeaseWatcher is what a [LeaseStore] may be as well: a candidate then hears of a release at
// once, instead of when it looks next. Nothing else depends on it.
type LeaseWatcher interface {
	// WatchLease returns nil when the store's record is of another version, or was deleted,
	// as soon as it hears of that; or an error, when ctx ends or it cannot go on.
	WatchLease(ctx context.Context, version string) error
}

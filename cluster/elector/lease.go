package elector

import (
	"context"
	"errors"
	"time"
)

// The errors of a [LeaseStore]; test for them with errors.Is.
var (
	// ErrNotFound is returned if the store has no record.
	ErrNotFound = errors.New("there is no lease record")
	// ErrExists is returned if a record was to be created and there is one.
	ErrExists = errors.New("there is a lease record already")
	// ErrConflict is returned if the record does not have the version to be replaced, or does not exist.
	ErrConflict = errors.New("the lease record was changed meanwhile")
)

// Lease is the record that candidates compete for. Its times come from the clock of its writer, and no other
// process may rely on them.
type Lease struct {
	// HolderIdentity is the CandidateID of the holder; "" means that there is no holder.
	HolderIdentity string
	// HolderInstance distinguishes processes that have the same CandidateID. The elector generates it.
	HolderInstance string
	// LeaseDuration is the time for which other candidates must see the record unchanged, each by its own
	// clock, before they may take the lease. A store keeps it exactly.
	LeaseDuration time.Duration
	// AcquireTime is the start of the term, and RenewTime the time of the last write, by the holder's wall
	// clock. Both are for people. A store keeps them at least to the microsecond.
	AcquireTime, RenewTime time.Time
	// LeaderTransitions is the number of the term. It is larger than that of every earlier term of any
	// candidate, and is the fencing token.
	LeaderTransitions int64
	// Version changes with each write. The store generates it and never uses it again, not even for a record
	// that was deleted and created anew. Only the store interprets it.
	Version string
}

// LeaseStore keeps one record. Reads see every write that was confirmed before they began, so a replica that
// lags is not a LeaseStore. Writes are atomic.
//
// All methods are safe for concurrent use and return when ctx ends. If a write fails with an error other than
// those above, its outcome is unknown; it may even take effect later. Package electortest has the conformance
// suite.
type LeaseStore interface {
	// GetLease returns the record, or ErrNotFound.
	GetLease(ctx context.Context) (Lease, error)
	// CreateLease writes the first record and returns it with its Version; the argument's Version is ignored.
	// It returns ErrExists if there is a record.
	CreateLease(ctx context.Context, lease Lease) (Lease, error)
	// UpdateLease replaces the record if the stored one has lease.Version, in one step, and returns it with its
	// new Version. It returns ErrConflict if the store has another version or no record.
	UpdateLease(ctx context.Context, lease Lease) (Lease, error)
}

// LeaseWatcher is optionally implemented by a [LeaseStore]. Candidates then notice a release at once, instead
// of at their next read. Nothing else depends on it: each signal makes a candidate read once. A watch that
// signals without end makes it read ten times a second, or ten times in a RetryPeriod that is shorter.
type LeaseWatcher interface {
	// Watch watches the record until ctx ends. It calls changed once when it begins to watch, and then whenever
	// the record has another holder or none. It may call changed at other times, too. changed does not block.
	//
	// Watch returns an error if ctx ends or the watch fails, and is then called again after a pause. It returns
	// nil at once if the store cannot be watched as it is configured. Run of an elector calls Watch for as long
	// as it runs, and returns only after Watch has.
	Watch(ctx context.Context, changed func()) error
}

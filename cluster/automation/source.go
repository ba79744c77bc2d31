package automation

import (
	"context"
	"time"
)

// Item is one entry of a to-do list.
type Item[I any] struct {
	// Key identifies the item among those of its automation: 1 to 256 bytes.
	Key string
	// Value describes the item for its executor.
	Value I
}

// Source provides the items that are due, and stores the results of their execution. A source may also be a [Counter]
// and a processor.Changer.
type Source[I any] interface {
	// Next claims an item that is due for the automation of that name, calls work with it, stores the result that
	// work returns, and ends the claim. Between claim and end, no other call of any process may get the item. It
	// reports whether it called work; false means that no item is due which this process may have. An error means
	// that no item could be claimed, or that it is unknown whether the result was stored. An error that matches
	// processor.ErrNoLock ends the automation.
	//
	// Next is called concurrently, but until it has called work or returned, no other call begins. ctx may end
	// while work runs; the result must be stored all the same. If work does not return, because its goroutine
	// ends, the claim must end as with the result [Released].
	Next(ctx context.Context, name string, work func(ctx context.Context, c Claim[I]) Result) (found bool, err error)
}

// Claim is an item that this process alone works on.
type Claim[I any] struct {
	Item[I]
	// Attempts counts the failures that the item itself caused, and Failures all failures in a row.
	Attempts, Failures int
	// LastError is the error of the last attempt; nil if there was none or it is unknown.
	LastError error
	// ReadError is set if the value cannot be read. The item has then failed, without being executed.
	ReadError error
	// Token is the fencing token of the claim; 0 if it has none.
	Token int64
	// Try runs fn and then marks the item as done. If either fails, it undoes the mark and what fn wrote in the
	// source's transaction, and returns the error. TryPark runs fn and undoes what it wrote if it fails. If Try or
	// TryPark is nil, fn runs without a transaction.
	Try, TryPark func(ctx context.Context, fn func(ctx context.Context) error) error
}

// Outcome is the kind of a [Result].
type Outcome int

// The outcomes of a claim.
const (
	// Released means that the item was not executed to its end. Nothing is stored, and any process may have it.
	Released Outcome = iota
	// Done means that the item was executed.
	Done
	// Failed means that the item is due again after a pause.
	Failed
	// Parked means that the item is not executed again.
	Parked
)

// Result holds the values that the source must store about an item.
type Result struct {
	Outcome Outcome
	// Attempts and Failures are the new counts; see [Claim].
	Attempts, Failures int
	// After is the pause until the item is due again; for Failed only.
	After time.Duration
	// Err is the error of the last attempt; for Failed and Parked.
	Err error
}

// Counter is a source that counts its items.
type Counter interface {
	// Count counts the items of the automation of that name. It may be called at the same time as Next, but only by
	// one goroutine, and may block until ctx ends.
	Count(ctx context.Context, name string) (Counts, error)
}

// Counts are the numbers of items by their state; -1 means unknown.
type Counts struct {
	Due     int64 `json:"due"`     // may be executed now, or are being executed
	Waiting int64 `json:"waiting"` // have failed and are due after a pause
	Parked  int64 `json:"parked"`  // are not executed again
}

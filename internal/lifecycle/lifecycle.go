// Package lifecycle holds the errors that several public packages share, most of them about a node that does
// not run. Each is one value, whichever package returns it. Packages cluster, leaderelection, lock, once and processor
// export them under their own names.
//
// Not promised: anything else. The package has no state.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrNotStarted is returned before Start has returned.
	ErrNotStarted = errors.New("the cluster is not started: Start has to return first")
	// ErrStopped is returned once Stop was called.
	ErrStopped = errors.New("the node has stopped, or is stopping")
	// ErrShardingOff is returned by a node that takes no part in the shards.
	ErrShardingOff = errors.New("this node takes no part in the shards, because Sharding.Off is set")
	// ErrTermOver is returned when a term of leadership has ended; nothing was written under it.
	ErrTermOver = errors.New("the term is over")
	// ErrBadName is returned for a name from which no key in etcd can be made.
	ErrBadName = errors.New("bad name")
	// ErrNoLock is returned for a leader lock that this process can never acquire; see package processor.
	ErrNoLock = errors.New("the leader lock cannot be had")
)

// UnfinishedError reports that the deadline of a context passed while a list was read. The part that was read
// is returned beside the error. The list continues after After, which may lie beyond the last element returned.
type UnfinishedError struct {
	After string
	Err   error // the reason why reading stopped
}

// Unfinished returns the results of a list that is complete up to the name after, and that err kept from being
// read further. It returns found and an UnfinishedError. If after is empty, or the deadline of ctx is not the
// reason, it returns err alone.
func Unfinished[T any](ctx context.Context, found []T, after string, err error) (_ []T, more bool, _ error) {
	if after == "" || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, false, err
	}
	return found, true, &UnfinishedError{After: after, Err: err}
}

// Error names the place where the list continues.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("there was no time for the whole list, go on after %q: %v", e.After, e.Err)
}

// Unwrap returns the reason.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Package lifecycle holds errors that several public packages have in common, above all those
// of a node that does not run: one value for each, whichever package returns it. Packages
// cluster, election, lock and once show them under their own names.
//
// Not promised: anything else. It has no state.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrNotStarted: Start has not returned yet.
	ErrNotStarted = errors.New("the cluster is not started: Start has to return first")
	// ErrStopped: Stop was called.
	ErrStopped = errors.New("the node has stopped, or is stopping")
	// ErrShardingOff: the node takes no part in the shards.
	ErrShardingOff = errors.New("this node takes no part in the shards, because Sharding.Off is set")
	// ErrBadName: a name that keys in etcd cannot be made of.
	ErrBadName = errors.New("bad name")
)

// UnfinishedError: the deadline of a context passed while a list was read. What was found until then is returned with
// it, and the list goes on behind After, which may be behind the last that was found.
type UnfinishedError struct {
	After string
	Err   error // why it was not read further
}

// Unfinished is how a list ends that is complete up to the name after, and was not read further because of err. Where
// nothing was read, or ctx's deadline is not the reason, it fails with err.
func Unfinished[T any](ctx context.Context, found []T, after string, err error) (_ []T, more bool, _ error) {
	if after == "" || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, false, err
	}
	return found, true, &UnfinishedError{After: after, Err: err}
}

// Error says where to go on.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("there was no time for the whole list, go on after %q: %v", e.After, e.Err)
}

// Unwrap is the reason.
func (e *UnfinishedError) Unwrap() error { return e.Err }

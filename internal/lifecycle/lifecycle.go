// Package lifecycle holds the errors of what is asked of a node that does not run: one value
// for each, whichever package returns it. Packages cluster, election, lock and once show them
// under their own names.
//
// Not promised: anything else. It has no state.
package lifecycle

import "errors"

var (
	// ErrNotStarted: Start has not returned yet.
	ErrNotStarted = errors.New("the cluster is not started")
	// ErrStopped: Stop was called.
	ErrStopped = errors.New("the node has stopped, or is stopping")
)

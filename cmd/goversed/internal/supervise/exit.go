package supervise

import "github.com/goverse/goverse/cmd/goversed/internal/cli"

// The exit codes of goversed exec and lock that are not the command's own; as far as there
// are usual ones, those that env(1), timeout(1) and shells have.
const (
	ExitLost     = 123 // the lock was lost and the command ended for it
	ExitBusy     = 124 // another held the lock, all the time that was waited
	ExitFailed   = 125 // goversed itself failed, or etcd refused it or did not answer in time
	ExitRefused  = 126 // the command is there and cannot be run
	ExitNotFound = 127 // there is no such command
	exitSignal   = 128 // plus the number: a signal ended it
)

// failed is the end by an error of goversed's own.
func failed(err error) error { return &cli.CodeError{Code: ExitFailed, Err: err} }

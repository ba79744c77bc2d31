package supervise

import "github.com/goverse/goverse/cmd/goversed/internal/cli"

// Exit codes of goversed exec and lock that are not the command's own. They follow env(1), timeout(1) and
// shells where these have conventions.
const (
	ExitLost     = 123 // the lock was lost, and the command was ended for it
	ExitBusy     = 124 // another process held the lock for all of the wait
	ExitFailed   = 125 // goversed itself failed, or etcd refused it or did not answer in time
	ExitRefused  = 126 // the command exists but cannot be run
	ExitNotFound = 127 // the command does not exist
	exitSignal   = 128 // plus the number of the signal that ended the command
)

// failed wraps an error of goversed's own.
func failed(err error) error { return &cli.ExitCodeError{Code: ExitFailed, Err: err} }

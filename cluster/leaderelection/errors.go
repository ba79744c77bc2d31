package leaderelection

import "errors"

// ErrStarted: Start was called twice.
var ErrStarted = errors.New("the election was started already; make a new one instead")

package leaderelection

import "errors"

// ErrStarted is returned when Start is called twice.
var ErrStarted = errors.New("the election was started already; make a new one instead")

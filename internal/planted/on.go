//go:build planted

package planted

import (
	"os"
	"sync/atomic"
)

// Variable names the bug to switch on in a process.
const Variable = "GOVERSE_PLANTED"

var on atomic.Value

func init() { Set(Bug(os.Getenv(Variable))) }

// Set switches b on and all others off; "" is none.
func Set(b Bug) { on.Store(b) }

// Is reports whether b is switched on.
func Is(b Bug) bool { return on.Load() == b }

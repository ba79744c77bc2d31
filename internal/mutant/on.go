//go:build mutants

package mutant

import (
	"os"
	"sync/atomic"
)

// Variable names the mutant to switch on in a process.
const Variable = "GOVERSE_MUTANT"

var on atomic.Value

func init() { Set(Name(os.Getenv(Variable))) }

// Set switches m on and all others off; "" is none.
func Set(m Name) { on.Store(m) }

// Is reports whether m is switched on.
func Is(m Name) bool { return on.Load() == m }

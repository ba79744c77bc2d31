//go:build !(linux || darwin || freebsd || openbsd || dragonfly)

package supervise

import (
	"context"
	"os"
)

// Run fails with ErrUnsupported.
func Run(Config, <-chan os.Signal) error { return failed(ErrUnsupported) }

// Guard returns ErrUnsupported.
func Guard(func(lease int64) error) error { return ErrUnsupported }

// Free returns nil, because Guard never calls it on these systems.
func Free(func(ctx context.Context, lease int64) error) func(lease int64) error { return nil }

// Signals returns none.
func Signals() []os.Signal { return nil }

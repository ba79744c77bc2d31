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

// Free is for Guard, which calls it nowhere here.
func Free(func(ctx context.Context, lease int64) error) func(lease int64) error { return nil }

// Signals are none.
func Signals() []os.Signal { return nil }

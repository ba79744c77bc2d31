//go:build darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
)

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// now reads clocks that every process of this machine reads alike.
func now() ending.Instant {
	return ending.Instant{Boot: clock(unix.CLOCK_MONOTONIC), Wall: clock(unix.CLOCK_REALTIME)}
}

// adoptOrphans: the system's first process reaps them here.
func adoptOrphans() error { return nil }

// orphans: see adoptOrphans.
func orphans() ([]process, error) { return nil, nil }

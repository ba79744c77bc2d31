//go:build darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
)

// self returns the path of this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// now reads two clocks that all processes of this machine share.
func now() ending.Instant {
	return ending.Instant{Boot: clock(unix.CLOCK_MONOTONIC), Wall: clock(unix.CLOCK_REALTIME)}
}

// adoptOrphans does nothing: on these systems the first process of the system reaps orphans.
func adoptOrphans() error { return nil }

// orphans returns none; see adoptOrphans.
func orphans() ([]process, error) { return nil, nil }

//go:build linux || darwin || freebsd || openbsd || dragonfly

package history

import "golang.org/x/sys/unix"

// now reads the kernel's clock, because package time counts from a separate origin in each process.
func now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: the kernel has no CLOCK_MONOTONIC: " + err.Error()) // POSIX requires it
	}
	return Instant(ts.Nano())
}

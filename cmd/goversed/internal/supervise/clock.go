//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import "golang.org/x/sys/unix"

func clock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("supervise: the kernel lacks a clock: " + err.Error()) // all of these systems have these clocks
	}
	return ts.Nano()
}

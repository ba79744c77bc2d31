package fault

import "golang.org/x/sys/unix"

// stopped reports whether a child stands still. The kernel reports it once the last thread has stopped. WNOWAIT
// leaves the report for the next call.
func stopped(pid int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0, err
}

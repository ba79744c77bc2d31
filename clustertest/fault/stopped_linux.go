package fault

import "golang.org/x/sys/unix"

// stopped reports whether a child stands still: the kernel says so once the last of
// its threads does. The answer is left for the next caller.
func stopped(pid int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0, err
}

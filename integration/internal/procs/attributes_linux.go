package procs

import "syscall"

// childAttributes: the terminal's Ctrl-C is not for the processes, and they die
// with the test binary, however that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

package dev

import "syscall"

// childAttributes ties a node to this process: it gets no Ctrl-C of the terminal's
// own (this process stops it, in order), and dies when the thread that started it
// does, which starter keeps for that.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

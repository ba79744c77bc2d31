//go:build unix && !linux

package procs

import "syscall"

// childAttributes: the terminal's Ctrl-C is not for the processes.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

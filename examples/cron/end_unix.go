//go:build unix

package main

import (
	"os"
	"syscall"
)

// end sends SIGTERM to the command's process group.
func end(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

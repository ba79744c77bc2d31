//go:build unix

package main

import (
	"os"
	"syscall"
)

// end asks the command, and what it has started in its group, to end.
func end(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

//go:build unix

package procs

import (
	"os/exec"
	"runtime"
)

// starter starts processes from one thread that lives as long as they do: Linux
// ties a child's parent-death signal to the thread that started it, not to the
// process.
type starter struct {
	requests chan startRequest
	ended    chan struct{}
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	r := startRequest{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.result
}

// close is to be called when every process has ended.
func (s *starter) close() {
	close(s.requests)
	<-s.ended
}

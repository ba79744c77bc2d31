// Package child starts processes that end with this one.
//
// Not promised: if this process is killed, its children end with it only on Linux.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Starter starts processes that do not receive the terminal's Ctrl-C, because this process stops them in order.
// On Linux they also die with this process, however it ends. There the parent-death signal is bound to the
// thread that started the child, not to its process. One thread that lives as long as the children therefore
// starts all of them. Start is safe for concurrent use.
type Starter struct {
	requests chan startRequest
	ended    chan struct{}
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// NewStarter starts that thread. Close ends it.
func NewStarter() *Starter {
	s := &Starter{requests: make(chan startRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range s.requests {
			if r.cmd.SysProcAttr == nil {
				r.cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			set(r.cmd.SysProcAttr)
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

// Start calls cmd.Start on that thread. It sets the fields that it needs in cmd.SysProcAttr.
func (s *Starter) Start(cmd *exec.Cmd) error {
	r := startRequest{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.result
}

// Close ends the thread. Call it once, when every process has ended: on Linux those that still run are killed.
func (s *Starter) Close() {
	close(s.requests)
	<-s.ended
}

// Package child starts processes that end with this one.
//
// Not promised: that they end with it anywhere but on Linux, when it is killed.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Starter starts processes that get no Ctrl-C of the terminal's own (this process
// stops them, in order), and on Linux die with this process, however it ends. There
// the parent-death signal is tied to the thread that started a child, not to the
// process, so one thread that lives as long as they do starts all of them. Start is
// safe for concurrent use.
type Starter struct {
	requests chan request
	ended    chan struct{}
}

type request struct {
	cmd    *exec.Cmd
	result chan error
}

// NewStarter starts that thread. End it with Close.
func NewStarter() *Starter {
	s := &Starter{requests: make(chan request), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
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

// Start is cmd.Start, on that thread; it sets what it needs in cmd.SysProcAttr.
func (s *Starter) Start(cmd *exec.Cmd) error {
	r := request{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.result
}

// Close ends the thread. Call it once, when every process has ended: on Linux those
// that have not are killed.
func (s *Starter) Close() {
	close(s.requests)
	<-s.ended
}

//go:build unix

package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/internal/child"
)

const (
	// signalPatience bounds the wait for the effect of a signal that nothing can
	// withstand, save a process that the kernel keeps in a system call.
	signalPatience = 10 * time.Second
	// signalInterval is between two looks whether it has come.
	signalInterval = time.Millisecond
	// pipePatience bounds the wait for the output of a process that has ended, which
	// a child of its own may keep open.
	pipePatience = time.Second
)

// ErrNoEffect: a process has neither ended nor stopped ten seconds after the signal.
var ErrNoEffect = errors.New("the signal has had no effect so far")

// Process is one child process, with all its threads and without children of its own.
// All methods are safe for concurrent use. Methods that send a signal return the
// instant just before it was sent, and an error that matches os.ErrProcessDone if the
// process had ended before.
type Process struct {
	cmd  *exec.Cmd
	said output
	done chan struct{}
}

// StartProcess starts a command. Its process gets no Ctrl-C of the terminal's own, and
// on Linux dies with this process, however it ends; cmd.SysProcAttr is overwritten for
// that. What it says is kept for Output, except for streams that cmd redirects. Kill,
// Close or Exit wait for its end: one of them must be called. The process has the default signals, also where nohup or
// a script's background had this one ignore some: this process ignores them no more, and does nothing about them.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	defaultSignals()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.said
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.said
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = pipePatience
	}
	starter := child.NewStarter()
	if err := starter.Start(cmd); err != nil {
		starter.Close()
		return nil, fmt.Errorf("fault: %s does not start: %w", cmd.Path, err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its ProcessState
		starter.Close()
	}()
	return p, nil
}

// defaultSignals has ignored signals caught, so that processes started from then on do not inherit that they are
// ignored.
var defaultSignals = sync.OnceFunc(func() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
})

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is all it said so far, on both streams.
func (p *Process) Output() string { return p.said.String() }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether it has not ended; a frozen process runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// State is "running", or how it ended, for messages.
func (p *Process) State() string {
	if p.Running() {
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// Signal sends a signal and does not wait for what comes of it.
func (p *Process) Signal(sig os.Signal) (time.Time, error) {
	at := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		return at, fmt.Errorf("fault: send %v to process %d (%s): %w", sig, p.Pid(), p.State(), err)
	}
	return at, nil
}

// Kill sends SIGKILL and returns when the process has ended. The kernel has closed
// its sockets then.
func (p *Process) Kill() (time.Time, error) {
	at, err := p.Signal(syscall.SIGKILL)
	if err != nil {
		return at, err
	}
	select {
	case <-p.done:
		return at, nil
	case <-time.After(signalPatience):
		return at, fmt.Errorf("fault: process %d, killed: %w", p.Pid(), ErrNoEffect)
	}
}

// Freeze sends SIGSTOP and returns when all threads of the process stand still. Its
// sockets stay open, and the kernel goes on accepting connections and data for it.
func (p *Process) Freeze() (time.Time, error) {
	at, err := p.Signal(syscall.SIGSTOP)
	if err != nil {
		return at, err
	}
	again := time.NewTicker(signalInterval)
	defer again.Stop()
	for {
		stopped, err := stopped(p.Pid())
		switch {
		case stopped:
			return at, nil
		case !p.Running():
			return at, fmt.Errorf("fault: process %d ended while it was frozen: %w", p.Pid(), os.ErrProcessDone)
		case time.Since(at) > signalPatience:
			return at, errors.Join(fmt.Errorf("fault: process %d, frozen: %w", p.Pid(), ErrNoEffect), err)
		}
		<-again.C
	}
}

// Thaw lets a frozen process run on.
func (p *Process) Thaw() (time.Time, error) { return p.Signal(syscall.SIGCONT) }

// Exit waits for the process's end and returns its exit code, -1 if a signal ended
// it. If ctx ends first, its error is returned and the process goes on.
func (p *Process) Exit(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("fault: process %d has not ended: %w", p.Pid(), ctx.Err())
	}
}

// Close kills the process, if it has not ended, and waits for it.
func (p *Process) Close() error {
	if _, err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

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
	// signalPatience limits the wait for the effect of a signal. A process cannot block these signals, but the
	// kernel may keep it in a system call.
	signalPatience = 10 * time.Second
	// signalInterval is the interval of the checks for that effect.
	signalInterval = time.Millisecond
	// pipePatience limits the wait for the output of a process that has ended, because a child of its own may
	// keep the pipe open.
	pipePatience = time.Second
)

// ErrNoEffect is returned when a process has neither ended nor stopped ten seconds after the signal.
var ErrNoEffect = errors.New("the signal has had no effect so far")

// Process is one child process: all its threads, but not its own children. All methods are safe for concurrent
// use. Methods that send a signal return the time just before it was sent. Their error matches
// os.ErrProcessDone if the process had ended before.
type Process struct {
	cmd    *exec.Cmd
	output output
	done   chan struct{}
}

// StartProcess starts a command. The process does not get the terminal's Ctrl-C, and on Linux it dies with this
// process, however this one ends. StartProcess sets fields of cmd.SysProcAttr for that. The output is kept for
// Output, except for streams that cmd redirects. Kill, Close and Exit wait for the process to end; call at
// least one of them.
//
// The process starts with default signal handling, even if this process ignores some signals because of nohup
// or a script's background job. From then on this process no longer ignores these signals: it catches them and
// does nothing.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	defaultSignals()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.output
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
		_ = cmd.Wait() // cmd.ProcessState holds the result
		starter.Close()
	}()
	return p, nil
}

// defaultSignals makes this process catch the signals it ignores, because child processes inherit ignored
// signals but not caught ones.
var defaultSignals = sync.OnceFunc(func() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
})

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output returns the output so far, of both streams.
func (p *Process) Output() string { return p.output.String() }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended. A frozen process is running.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// State returns "running", or a description of how the process ended, for messages.
func (p *Process) State() string {
	if p.Running() {
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// Signal sends a signal and does not wait for its effect.
func (p *Process) Signal(sig os.Signal) (time.Time, error) {
	at := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		return at, fmt.Errorf("fault: send %v to process %d (%s): %w", sig, p.Pid(), p.State(), err)
	}
	return at, nil
}

// Kill sends SIGKILL and returns when the process has ended. The kernel has closed its sockets by then.
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

// Freeze sends SIGSTOP and returns when all threads of the process stand still. Its sockets stay open, and the
// kernel continues to accept connections and data for it.
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

// Thaw lets a frozen process continue.
func (p *Process) Thaw() (time.Time, error) { return p.Signal(syscall.SIGCONT) }

// Exit waits for the process to end and returns its exit code, -1 if a signal ended it. If ctx ends first, Exit
// returns the context's error and the process continues.
func (p *Process) Exit(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("fault: process %d has not ended: %w", p.Pid(), ctx.Err())
	}
}

// Close kills the process if it has not ended, and waits for its end.
func (p *Process) Close() error {
	if _, err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

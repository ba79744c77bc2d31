// Package reexec starts this very binary again in another role: as a process to be killed, as a disturbance, or
// as a server that must not be part of the measuring process.
//
// The process ends when its standard input closes, so nothing is left behind if the parent dies.
//
// # What is not promised
//
// A killed process leaves nothing in order; that is its purpose.
package reexec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// SpinArg, as the only argument, makes the process keep one thread busy; see [Serve].
const SpinArg = "spin"

const ready = "ready: "

// Serve runs a role of this package. It reports whether args, without the program's name, name one; if so, it
// serves until standard input closes and returns the error.
func Serve(args []string) (asked bool, err error) {
	if len(args) != 1 || args[0] != SpinArg {
		return false, nil
	}
	spin(UntilParentEnds())
	return true, nil
}

// spin keeps a thread busy until ctx ends.
func spin(ctx context.Context) {
	Ready("")
	for ctx.Err() == nil {
		for range 1 << 20 {
		}
	}
}

// ServeAndExit runs the role that the arguments of this process name, and ends the process. It returns if none of the
// roles was asked for. A role reports whether the arguments, without the program's name, name it.
func ServeAndExit(roles ...func(args []string) (asked bool, err error)) {
	for _, serve := range roles {
		asked, err := serve(os.Args[1:])
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		case asked:
			os.Exit(0)
		}
	}
}

// UntilParentEnds returns a context for the started process. It ends when the parent ends or calls Stop.
func UntilParentEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the parent, or with this process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// Ready is called in the started process. The first call makes Start return a Process with the given Said; Await
// returns each later one.
func Ready(said string) { fmt.Println(ready + said) }

// Process is a started copy of this binary.
type Process struct {
	// Said is the argument of the process's first call of Ready.
	Said string

	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

// Start starts the binary with args and returns once the process calls Ready. End it with Stop or Kill.
func Start(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it again: %w", err)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	p := &Process{cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	if p.Said, err = p.Await(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not begin; its error is above", args[0]), err, p.Stop())
	}
	return p, nil
}

// Await waits for the process's next call of Ready and returns its argument. At the process's end it returns io.EOF. It
// is for one goroutine at a time, which must have seen the end before Stop is called.
func (p *Process) Await() (string, error) {
	line, err := p.stdout.ReadString('\n')
	said, isReady := strings.CutPrefix(strings.TrimSuffix(line, "\n"), ready)
	switch {
	case err != nil:
		return "", err
	case !isReady:
		return "", fmt.Errorf("the process wrote %q", line)
	}
	return said, nil
}

// Stop ends the process and waits for it.
func (p *Process) Stop() error {
	_ = p.stdin.Close() // Wait returns the relevant error
	return p.cmd.Wait()
}

// Kill sends SIGKILL and returns at once. Call Stop to wait for the process; it then returns an error, because
// the process was killed.
func (p *Process) Kill() error { return p.Signal(os.Kill) }

// Signal sends a signal and returns at once.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

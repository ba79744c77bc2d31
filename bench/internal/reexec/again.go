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

// These first arguments select another role of the binary; see [Serve].
const (
	// CampaignArg, followed by an etcd endpoint, an election's prefix and a TTL in seconds, makes the process a
	// candidate of concurrency.Election. Start returns when it leads.
	CampaignArg = "campaign"
	// SpinArg makes the process keep one thread busy.
	SpinArg = "spin"
)

const ready = "ready: "

// Serve runs a role of this package. It reports whether args, without the program's name, name one; if so, it
// serves until standard input closes and returns the error.
func Serve(args []string) (asked bool, err error) {
	var serve func(context.Context) error
	switch {
	case len(args) == 4 && args[0] == CampaignArg:
		serve = func(ctx context.Context) error { return campaign(ctx, args[1], args[2], args[3]) }
	case len(args) == 1 && args[0] == SpinArg:
		serve = spin
	default:
		return false, nil
	}
	return true, serve(UntilParentEnds())
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

// Ready is called in the started process. It makes Start return a Process with the given Said.
func Ready(said string) { fmt.Println(ready + said) }

// Process is a started copy of this binary.
type Process struct {
	// Said is the argument of the process's call of Ready.
	Said string

	cmd   *exec.Cmd
	stdin io.Closer
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
	p := &Process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	said, isReady := strings.CutPrefix(strings.TrimSuffix(line, "\n"), ready)
	if !isReady {
		return nil, errors.Join(fmt.Errorf("%s did not begin; its error is above", args[0]), err, p.Stop())
	}
	p.Said = said
	return p, nil
}

// Stop ends the process and waits for it.
func (p *Process) Stop() error {
	_ = p.stdin.Close() // Wait returns the relevant error
	return p.cmd.Wait()
}

// Kill sends SIGKILL and returns at once. Call Stop to wait for the process; it then returns an error, because
// the process was killed.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

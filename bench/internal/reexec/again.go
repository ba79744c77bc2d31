// Package reexec starts this very binary once more, as something that is to be killed
// or to be in the way, or as a server that the program which measures must not be.
//
// The process ends when its standard input closes: nothing is left behind if the
// parent dies.
//
// # What is not promised
//
// That a process which was killed left anything in order; that is what it is for.
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

// The first arguments that make the binary something else; see [Serve].
const (
	// CampaignArg, followed by an etcd endpoint, an election's prefix and a TTL in
	// seconds, is a candidate of concurrency.Election; Start returns when it leads.
	CampaignArg = "campaign"
	// SpinArg keeps one thread busy.
	SpinArg = "spin"
)

const ready = "ready: "

// Serve is what the started process does: it reports whether args, without the
// program's name, ask for anything of this package, does that until standard input
// closes, and returns its error.
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

// UntilParentEnds is for the started process: the context ends when its parent has ended or stopped it.
func UntilParentEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the parent, at the latest with this process
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// Ready is for the started process: Start returns, and its Process has this to say.
func Ready(said string) { fmt.Println(ready + said) }

// Process is this binary once more.
type Process struct {
	// Said is what the process gave to Ready.
	Said string

	cmd   *exec.Cmd
	stdin io.Closer
}

// Start starts it with args and returns once it is what they ask for. End it with Stop
// or Kill.
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
	_ = p.stdin.Close() // Wait returns what matters
	return p.cmd.Wait()
}

// Kill sends SIGKILL and returns at once. Join what is left with Stop, which then
// returns that it was killed.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

//go:build unix

package procs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
)

// raceReport is the first line of a race detector's report.
const raceReport = "WARNING: DATA RACE"

// Process is one process. Its methods fail the test instead of returning an error. The process ends with the
// test that started it.
type Process struct {
	*fault.Process
	name string
}

// Start starts a program with the given additions to a clean environment.
func (k *Kit) Start(t testing.TB, name, path string, args, env []string) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), env...)
	started, err := fault.StartProcess(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &Process{started, name}
	k.mu.Lock()
	k.running[p] = true
	k.mu.Unlock()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%s cannot be killed: %v", name, err)
		} else {
			k.mu.Lock()
			delete(k.running, p)
			k.mu.Unlock()
		}
		if strings.Contains(p.Output(), raceReport) {
			t.Errorf("%s has a data race", name)
		}
		if t.Failed() {
			t.Logf("%s (process %d, %s) said:\n%s", name, p.Pid(), p.State(), p.Output())
		}
	})
	return p
}

// environment returns this process's environment without variables that would configure the tested programs.
func environment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GOVERSE_") && !strings.HasPrefix(entry, "ETCD") {
			out = append(out, entry)
		}
	}
	return out
}

// signalTime returns the time of a signal, or fails the test if the signal had no effect.
func (p *Process) signalTime(t testing.TB, at time.Time, err error) time.Time {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return at
}

// Signal sends a signal to a running process and returns the time just before.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) time.Time {
	t.Helper()
	at, err := p.Process.Signal(sig)
	return p.signalTime(t, at, err)
}

// Kill kills the process with SIGKILL, waits for its end, and returns the time of the signal.
func (p *Process) Kill(t testing.TB) time.Time {
	t.Helper()
	at, err := p.Process.Kill()
	return p.signalTime(t, at, err)
}

// Freeze stops the process with SIGSTOP, waits until none of its threads runs, and returns the time of the
// signal.
func (p *Process) Freeze(t testing.TB) time.Time {
	t.Helper()
	at, err := p.Process.Freeze()
	return p.signalTime(t, at, err)
}

// Thaw lets the process continue and returns the time just before.
func (p *Process) Thaw(t testing.TB) time.Time {
	t.Helper()
	at, err := p.Process.Thaw()
	return p.signalTime(t, at, err)
}

// Exit waits for the process to end and returns its exit code, or -1 if a signal ended it.
func (p *Process) Exit(t testing.TB, within time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	code, err := p.Process.Exit(ctx)
	if err != nil {
		t.Fatalf("%s, within %v: %v", p.name, within, err)
	}
	return code
}

// AwaitOutput waits until the output of the process contains text.
func (p *Process) AwaitOutput(t testing.TB, within time.Duration, text string) {
	t.Helper()
	Await(t, within, fmt.Sprintf("%s says %q", p.name, text), func() error {
		switch {
		case strings.Contains(p.Output(), text):
			return nil
		case !p.Running():
			t.Fatalf("%s ended (%s) without saying %q", p.name, p.State(), text)
		}
		return errors.New("not said")
	})
}

//go:build unix

package procs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// endPatience bounds the wait for a process that was killed.
	endPatience = 10 * time.Second
	// pipePatience bounds the wait for a dead process's output.
	pipePatience = time.Second
	// raceReport is how the race detector begins.
	raceReport = "WARNING: DATA RACE"
)

// Process is one process. It ends with the test that started it.
type Process struct {
	name string
	cmd  *exec.Cmd
	said *output
	done chan struct{}
	err  error // read after done
}

// Start starts a program with the given additions to a clean environment.
func (k *Kit) Start(t testing.TB, name, path string, args, env []string) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), env...)
	cmd.WaitDelay = pipePatience
	p := &Process{name: name, cmd: cmd, said: &output{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := k.starter.Start(cmd); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	k.mu.Lock()
	k.running[p] = true
	k.mu.Unlock()
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		select {
		case <-p.done:
			k.mu.Lock()
			delete(k.running, p)
			k.mu.Unlock()
		case <-time.After(endPatience):
			t.Errorf("%s (process %d) cannot be killed", name, p.Pid())
		}
		if strings.Contains(p.Output(), raceReport) {
			t.Errorf("%s has a data race", name)
		}
		if t.Failed() {
			t.Logf("%s (process %d, %s) said:\n%s", name, p.Pid(), p.state(), p.Output())
		}
	})
	return p
}

// environment is this process's own without what would configure the programs
// under test behind our back.
func environment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GOVERSE_") && !strings.HasPrefix(entry, "ETCD") {
			out = append(out, entry)
		}
	}
	return out
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is all it said so far, on both streams.
func (p *Process) Output() string { return p.said.String() }

// Running reports whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *Process) state() string {
	if p.Running() {
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// Signal sends a signal to a running process and returns the instant before.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) time.Time {
	t.Helper()
	at := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %v to %s (%s): %v", sig, p.name, p.state(), err)
	}
	return at
}

// Kill ends it with SIGKILL and returns the instant of the signal when it is reaped.
func (p *Process) Kill(t testing.TB) time.Time {
	t.Helper()
	at := p.Signal(t, syscall.SIGKILL)
	p.Exit(t, endPatience)
	return at
}

// Freeze stops it with SIGSTOP and returns the instant of the signal when no thread
// of it runs any more.
func (p *Process) Freeze(t testing.TB) time.Time {
	t.Helper()
	at := p.Signal(t, syscall.SIGSTOP)
	Await(t, endPatience, p.name+" stands still", func() error {
		state, err := p.schedulerState()
		if err == nil && state != 'T' {
			err = fmt.Errorf("its state is %c", state)
		}
		return err
	})
	return at
}

// Thaw lets it run on and returns the instant before.
func (p *Process) Thaw(t testing.TB) time.Time {
	t.Helper()
	return p.Signal(t, syscall.SIGCONT)
}

// schedulerState is the letter that ps shows.
func (p *Process) schedulerState() (byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err == nil {
		// The name before it is in parentheses and may hold anything.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) {
			return stat[i+2], nil
		}
	}
	out, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(p.Pid())).Output()
	out = bytes.TrimSpace(out)
	if err == nil && len(out) == 0 {
		err = errors.New("ps shows no state")
	}
	if err != nil {
		return 0, err
	}
	return out[0], nil
}

// Exit waits for its end and returns the exit code, -1 if a signal ended it.
func (p *Process) Exit(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("%s did not end within %v", p.name, within)
		return 0
	}
}

// AwaitOutput waits until it has said text.
func (p *Process) AwaitOutput(t testing.TB, within time.Duration, text string) {
	t.Helper()
	Await(t, within, fmt.Sprintf("%s says %q", p.name, text), func() error {
		switch {
		case strings.Contains(p.Output(), text):
			return nil
		case !p.Running():
			t.Fatalf("%s ended (%s) without saying %q", p.name, p.state(), text)
		}
		return errors.New("not said")
	})
}

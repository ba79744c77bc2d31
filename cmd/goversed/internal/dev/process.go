package dev

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// pipeTimeout limits the wait for a dead process's output, which a child of the process may hold open.
const pipeTimeout = time.Second

// nodeProcess is one run of a node.
type nodeProcess struct {
	cmd     *exec.Cmd
	log     *lineWriter
	started time.Time
	killed  bool // by killLeader
	joined  bool // it was registered at some time
}

// processExit is the end of a process, reported to the loop.
type processExit struct {
	slot        *nodeSlot
	description string // for example "exit status 1", with the last line of output
}

func (p *nodeProcess) pid() int { return p.cmd.Process.Pid }

// signal ignores errors: an error means that the process has ended, which arrives as an exit.
func (p *nodeProcess) signal(sig os.Signal) {
	if p.cmd.Process.Signal(sig) != nil && sig != os.Kill && runtime.GOOS == "windows" {
		_ = p.cmd.Process.Kill() // Windows has no signal that asks a process to end
	}
}

// wait blocks until the process has ended and all its output was passed on.
func (p *nodeProcess) wait() (how string) {
	err := p.cmd.Wait()
	last := p.log.flush()
	how = "exit status 0"
	if err != nil {
		how = err.Error()
		if last != "" {
			how += ", last words: " + last
		}
	}
	return how
}

// nodeEnvironment returns this process's environment without GOVERSE_ variables, which would configure the nodes.
func nodeEnvironment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GOVERSE_") {
			out = append(out, entry)
		}
	}
	return out
}

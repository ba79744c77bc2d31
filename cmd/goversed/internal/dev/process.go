package dev

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// pipePatience bounds the wait for a dead process's output, which something it
// started might hold open.
const pipePatience = time.Second

// process is one run of a node.
type process struct {
	cmd     *exec.Cmd
	log     *lineWriter
	started time.Time
	killed  bool // by us, as a leader
	joined  bool // it was registered once
}

// exit is the end of a process, reported to the loop.
type exit struct {
	slot *nodeSlot
	how  string // "exit status 1", with the last line it said
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal ignores its error: it says that the process has ended, and that comes as
// an exit.
func (p *process) signal(sig os.Signal) {
	if p.cmd.Process.Signal(sig) != nil && sig != os.Kill && runtime.GOOS == "windows" {
		_ = p.cmd.Process.Kill() // there is no signal to ask with
	}
}

// wait blocks until the process has ended and all it said was passed on.
func (p *process) wait() (how string) {
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

// environment is this process's own without what would configure a node behind
// our back.
func environment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GOVERSE_") {
			out = append(out, entry)
		}
	}
	return out
}

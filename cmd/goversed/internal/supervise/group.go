//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"slices"
	"syscall"
)

// processGroup is the command with its process group, and its cgroup if it has one.
type processGroup struct {
	pid    int    // of the command, which leads the group; 0: unknown
	cgroup string // its directory, or ""
	// earlierChildren holds the children that this process had before it started the guard.
	earlierChildren []process
}

// process identifies a process, also if its number is used again later.
type process struct {
	pid   int
	began string // start time in the kernel's unit
}

func (g processGroup) signal(sig syscall.Signal) {
	if g.pid != 0 {
		_ = syscall.Kill(-g.pid, sig) // it fails if the group is gone
	}
}

// terminate asks all processes of the group to end.
func (g processGroup) terminate() {
	g.signal(syscall.SIGTERM)
	for _, pid := range cgroupMembers(g.cgroup) {
		if member, err := syscall.Getpgid(pid); err == nil && member != g.pid { // otherwise signalled with the group
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	g.signal(syscall.SIGCONT) // a stopped process cannot handle SIGTERM
}

// kill kills all processes of the group. If the command's process id is unknown, every child that this process
// adopted since belongs to it.
func (g processGroup) kill() {
	killCgroup(g.cgroup)
	g.signal(syscall.SIGKILL)
	if g.pid == 0 {
		all, _ := g.adoptedChildren() // kill is repeated for those not seen now
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// reap reaps the ended processes of the group that are children of this process. Without that, zombies still
// count as members of a group.
func (g processGroup) reap() {
	if g.pid == 0 {
		reapAll()
		return
	}
	reapProcesses(-g.pid)
}

// allGone reports whether no process of the group is left.
func (g processGroup) allGone() bool {
	if cgroupPopulated(g.cgroup) {
		return false
	}
	if g.pid == 0 {
		left, err := g.adoptedChildren()
		return err == nil && len(left) == 0
	}
	return errors.Is(syscall.Kill(-g.pid, 0), syscall.ESRCH)
}

// adoptedChildren returns the children that this process did not have before. With an error it returns those it could
// see.
func (g processGroup) adoptedChildren() ([]process, error) {
	all, err := orphans()
	return slices.DeleteFunc(all, func(p process) bool { return slices.Contains(g.earlierChildren, p) }), err
}

// reapAll reaps all children that have ended. No other goroutine may wait for a child.
func reapAll() { reapProcesses(-1) }

func reapProcesses(which int) {
	for {
		pid, err := syscall.Wait4(which, nil, syscall.WNOHANG, nil)
		if (err != nil || pid <= 0) && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"slices"
	"syscall"
)

// group is the command, its process group, and its cgroup where it has one.
type group struct {
	pid    int    // of the command, which leads the group; 0: not known
	cgroup string // its directory, or ""
	// others are children that this process had before there was a guard.
	others []process
}

// process is one, distinguished from a later one that has its number.
type process struct {
	pid   int
	began string // in the kernel's words
}

// signal sends a signal to the group.
func (g group) signal(sig syscall.Signal) {
	if g.pid != 0 {
		_ = syscall.Kill(-g.pid, sig) // a process that is gone needs none
	}
}

// ask asks all to end.
func (g group) ask() {
	g.signal(syscall.SIGTERM)
	for _, pid := range cgroupMembers(g.cgroup) {
		if member, err := syscall.Getpgid(pid); err == nil && member != g.pid { // the group has it already
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	g.signal(syscall.SIGCONT) // who is stopped cannot end in order
}

// kill ends all. Where the group is not known, everything that this process has become the
// parent of belongs to it.
func (g group) kill() {
	killCgroup(g.cgroup)
	g.signal(syscall.SIGKILL)
	if g.pid == 0 {
		all, _ := g.adopted() // those that cannot be seen now are tried again
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// reap collects those of the group that are children of this process and have ended: a zombie
// counts as one of a group, too.
func (g group) reap() {
	if g.pid == 0 {
		reapAll()
		return
	}
	reapThose(-g.pid)
}

// gone reports whether nothing is left.
func (g group) gone() bool {
	if cgroupPopulated(g.cgroup) {
		return false
	}
	if g.pid == 0 {
		left, err := g.adopted()
		return err == nil && len(left) == 0
	}
	return errors.Is(syscall.Kill(-g.pid, 0), syscall.ESRCH)
}

// adopted are the children that this process has now and had not before. With an error they
// are those that could be seen.
func (g group) adopted() ([]process, error) {
	all, err := orphans()
	return slices.DeleteFunc(all, func(p process) bool { return slices.Contains(g.others, p) }), err
}

// reapAll collects all children that have ended. There must be none that others wait for.
func reapAll() { reapThose(-1) }

func reapThose(which int) {
	for {
		pid, err := syscall.Wait4(which, nil, syscall.WNOHANG, nil)
		if (err != nil || pid <= 0) && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

//go:build darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"fmt"
	"os"
	"syscall"
)

func newCgroup() (string, error) {
	return "", fmt.Errorf("%w: only Linux has cgroups; leave --cgroup out", ErrNoCgroup)
}

// The functions below do nothing, because newCgroup never returns a cgroup.

func intoCgroup(*syscall.SysProcAttr, *os.File) {}
func removeCgroup(string)                       {}
func killCgroup(string)                         {}
func cgroupPopulated(string) bool               { return false }
func cgroupMembers(string) []int                { return nil }

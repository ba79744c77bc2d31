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

// There is never a cgroup to do these with.

func intoCgroup(*syscall.SysProcAttr, *os.File) {}
func removeCgroup(string)                       {}
func killCgroup(string)                         {}
func cgroupPopulated(string) bool               { return false }
func cgroupMembers(string) []int                { return nil }

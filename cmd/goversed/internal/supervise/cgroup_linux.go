package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// intoCgroup has a process begin in the cgroup.
func intoCgroup(attr *syscall.SysProcAttr, dir *os.File) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
}

// newCgroup makes a cgroup (v2) below that of this process.
func newCgroup() (string, error) {
	parent, err := ownCgroup()
	if err != nil {
		return "", fmt.Errorf("%w: %w; leave --cgroup out", ErrNoCgroup, err)
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("goversed-%d-", os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("%w: this user may make none in %s: have it delegated (systemd: Delegate=yes), or leave "+
			"--cgroup out (%w)", ErrNoCgroup, parent, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		removeCgroup(dir)
		return "", fmt.Errorf("%w: it takes Linux 5.14 or later to kill one; leave --cgroup out (%w)", ErrNoCgroup, err)
	}
	return dir, nil
}

// ownCgroup is the directory of this process's own.
func ownCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	var path string
	for line := range strings.Lines(string(own)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close() // nothing was written
	for lines := bufio.NewScanner(mounts); path != "" && lines.Scan(); {
		// … root mountpoint … - type …
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && !strings.HasPrefix(below, "..") {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("this system has no cgroup v2 hierarchy with this process in it")
}

func removeCgroup(dir string) {
	_ = os.Remove(dir) // if anything is left in it, it stays
}

// killCgroup kills all in it; "" has nobody in it.
func killCgroup(dir string) {
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // tried again until it is empty
	}
}

// cgroupPopulated reports whether anybody may be left in it, or below it.
func cgroupPopulated(dir string) bool {
	if dir == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return false // the cgroup is gone, and only an empty one goes
	}
	return err != nil || !strings.Contains(string(events), "populated 0") // not to know is no reason to release
}

// cgroupMembers are the processes in it.
func cgroupMembers(dir string) []int {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

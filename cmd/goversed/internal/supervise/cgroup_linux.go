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

// intoCgroup makes a process start in the cgroup.
func intoCgroup(attr *syscall.SysProcAttr, dir *os.File) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
}

// newCgroup creates a cgroup (v2) below that of this process.
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

// ownCgroup returns the directory of this process's own cgroup.
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
	defer mounts.Close() // it was only read
	for lines := bufio.NewScanner(mounts); path != "" && lines.Scan(); {
		// The format is: … root mountpoint … - type …
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
	_ = os.Remove(dir) // the kernel refuses if a process is left in it
}

// killCgroup kills all processes in the cgroup. It does nothing if dir is "".
func killCgroup(dir string) {
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // the caller repeats it until it is empty
	}
}

// cgroupPopulated reports whether a process may be left in the cgroup, or below it.
func cgroupPopulated(dir string) bool {
	if dir == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return false // the cgroup was removed, which requires that it is empty
	}
	return err != nil || !strings.Contains(string(events), "populated 0") // an unreadable state counts as populated
}

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

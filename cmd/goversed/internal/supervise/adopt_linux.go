package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
)

// self returns a path of this program that is valid even if its file was replaced since.
func self() string { return "/proc/self/exe" }

// now reads two clocks that all processes of this machine share.
func now() ending.Instant {
	return ending.Instant{Boot: clock(unix.CLOCK_BOOTTIME), Wall: clock(unix.CLOCK_REALTIME)}
}

// adoptOrphans makes this process the parent of descendants that lose their parent. A process must reap them
// itself to be sure that they are gone.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of the command's descendants: %w", err)
	}
	return nil
}

// orphans returns the children of this process. With an error it returns those it could see.
func orphans() ([]process, error) {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.ECHILD) {
		return nil, nil // decided without /proc, which may hide other users' processes
	}
	return childrenOf(os.Getpid(), "/proc")
}

func childrenOf(parent int, proc string) ([]process, error) {
	dirs, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var out []process
	var unseen error
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue // not a process
		}
		text, err := os.ReadFile(filepath.Join(proc, dir.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		// The format is: pid (name, which may contain anything) state parent …, with the start time as field
		// 22.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		switch {
		case err != nil:
			unseen = err
		case len(fields) < 20:
			unseen = fmt.Errorf("process %d is described as %q", pid, text)
		case fields[1] == strconv.Itoa(parent):
			out = append(out, process{pid: pid, began: fields[19]})
		}
	}
	return out, unseen
}

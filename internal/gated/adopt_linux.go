package gated

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/internal/gated/ending"
)

// self is this program, also when its file was replaced since.
func self() string { return "/proc/self/exe" }

// now reads clocks that every process of this machine reads alike.
func now() ending.Instant {
	return ending.Instant{Boot: clock(unix.CLOCK_BOOTTIME), Wall: clock(unix.CLOCK_REALTIME)}
}

// adoptOrphans makes this process the parent of descendants whose parent ends: who is to see
// them gone must be the one to reap them.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of the command's descendants: %w", err)
	}
	return nil
}

// orphans are the children of this process.
func orphans() []int {
	mine := strconv.Itoa(os.Getpid())
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	var out []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone
		}
		// pid (name, which may hold anything) state parent …
		after := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(after) > 1 && after[1] == mine {
			out = append(out, pid)
		}
	}
	return out
}

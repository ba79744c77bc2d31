package budget

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// memoryShare divides the memory: the default is a quarter of it.
	memoryShare = 4
	// minDefault and maxDefault bound the default. With garbage, held bytes take up to twice as much memory, so a
	// larger budget is left to the operator.
	minDefault, maxDefault = 32 << 20, 96 << 20
)

// Default returns the budget of a node that configures none: a quarter of the memory that this process may use,
// by GOMEMLIMIT, its cgroup or the machine, but at least 32 MiB and at most 96 MiB.
func Default() int64 { return defaultOf(debug.SetMemoryLimit(-1), os.ReadFile) }

func defaultOf(limit int64, read func(name string) ([]byte, error)) int64 {
	memory := limit
	if memory == math.MaxInt64 {
		for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
			if n, ok := firstNumber(read, name, ""); ok {
				memory = min(memory, n)
			}
		}
		if n, ok := firstNumber(read, "/proc/meminfo", "MemTotal:"); ok {
			memory = min(memory, n<<10)
		}
	}
	return min(max(memory/memoryShare, minDefault), maxDefault)
}

// firstNumber returns the number after a label in a file.
func firstNumber(read func(name string) ([]byte, error), name, label string) (int64, bool) {
	raw, err := read(name)
	if err != nil {
		return 0, false
	}
	_, after, ok := bytes.Cut(raw, []byte(label))
	fields := bytes.Fields(after)
	if !ok || len(fields) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return n, err == nil && n > 0
}

package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes the machine, as far as figures depend on it, without identifying it.
type Machine struct {
	Cores  int
	CPU    string
	Kernel string
	Go     string
	OS     string
}

// ThisMachine returns the description of this machine.
func ThisMachine() Machine {
	return Machine{Cores: runtime.NumCPU(), CPU: cpuModel(), Kernel: kernel(), Go: runtime.Version(),
		OS: runtime.GOOS + "/" + runtime.GOARCH}
}

// String returns a description in one line.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, Linux %s, %s", m.Cores, m.CPU, m.OS, m.Kernel, m.Go)
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// kernel returns the kernel's version without the suffix of its distributor.
func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(data)), "-")
	return version
}

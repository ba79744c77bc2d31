package target

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/goverse/goverse/bench/internal/reexec"
)

// spinners are processes with one busy thread each, which together keep all cores busy.
type spinners struct {
	processes []*reexec.Process
	before    cpuTimes
}

const spinnersPerCore = 2

func startSpinners() (s *spinners, err error) {
	s = &spinners{}
	for range spinnersPerCore * runtime.NumCPU() {
		p, err := reexec.Start(reexec.SpinArg)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.processes = append(s.processes, p)
	}
	s.before, err = readCPU()
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *spinners) stop() error {
	var errs []error
	for _, p := range s.processes {
		errs = append(errs, p.Stop())
	}
	s.processes = nil
	return errors.Join(errs...)
}

// idle returns the fraction of the cores' time since the start in which they were idle.
func (s *spinners) idle() (float64, error) {
	now, err := readCPU()
	return (now.idle - s.before.idle) / (now.all - s.before.all), err
}

// cpuTimes holds the kernel's times of all cores, in the kernel's unit.
type cpuTimes struct{ idle, all float64 }

func readCPU() (t cpuTimes, err error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return t, err
	}
	// The fields are: cpu user nice system idle iowait irq softirq steal, and two that are already included in
	// user and nice.
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1:9] {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, err
		}
		t.all += v
		if i == 3 || i == 4 {
			t.idle += v
		}
	}
	return t, nil
}

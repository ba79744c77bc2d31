package target

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// usage holds the memory and goroutines of this process and of etcd.
type usage struct {
	heap, stacks, goroutines     float64 // of this process, after a collection; in bytes
	etcdResident, etcdGoroutines float64
}

// look reads the usage of both processes.
func look(ctx context.Context, p *etcdproc.Process) (usage, error) {
	metrics, err := p.Metrics(ctx)
	if err != nil {
		return usage{}, err
	}
	runtime.GC()
	runtime.GC() // frees objects that the first one only prepared for finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{heap: float64(m.HeapAlloc), stacks: float64(m.StackInuse), goroutines: float64(runtime.NumGoroutine()),
		etcdResident: metrics["process_resident_memory_bytes"], etcdGoroutines: metrics["go_goroutines"]}, nil
}

// since returns the increase since before.
func (u usage) since(before usage) usage {
	return usage{heap: u.heap - before.heap, stacks: u.stacks - before.stacks,
		goroutines:   u.goroutines - before.goroutines,
		etcdResident: u.etcdResident - before.etcdResident, etcdGoroutines: u.etcdGoroutines - before.etcdGoroutines}
}

// each returns the share of one of n nodes.
func (u usage) each(n int) string {
	of := float64(n)
	return fmt.Sprintf("%.0f KiB of heap, %.0f KiB of stacks, %.1f goroutines; at etcd %.0f KiB resident, %.1f goroutines",
		u.heap/kib/of, u.stacks/kib/of, u.goroutines/of, u.etcdResident/kib/of, u.etcdGoroutines/of)
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for an invalid argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuTimesOf returns the processor time that the processes have used, at a resolution of 10 ms each.
func cpuTimesOf(pids []int) (all time.Duration, err error) {
	const tick = 10 * time.Millisecond // the kernel's USER_HZ on all platforms
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The second field is the program's name, in parentheses.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) < 13 {
			return 0, fmt.Errorf("the kernel does not tell the processor time of process %d", pid)
		}
		for _, field := range fields[11:13] { // user and system time
			ticks, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			all += time.Duration(ticks) * tick
		}
	}
	return all, nil
}

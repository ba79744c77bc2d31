// Package pace determines the number of mostly waiting tests that a machine can run at a time, and the shortest
// TTL of their sessions.
//
// On some virtual machines every request to the kernel costs several times the usual time, above all the start
// of a process. Two cores are then busy with half of their usual work, and leases expire because their holders
// are not scheduled in time to renew them.
//
// Not promised: a measure of the machine's computing speed or its present load.
package pace

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/internal/test/race"
)

// slowPageFault is several times the duration of the first touch of a page on a real machine, and on most virtual
// ones.
const slowPageFault = 5 * time.Microsecond

// envSlow passes the answer of SlowMachine on to the processes that a test starts.
const envSlow = "GOVERSE_TEST_SLOW_MACHINE"

// SlowMachine reports whether this machine is such a slow virtual machine. Processes that a test starts give the same
// answer, so they agree with it on each TTL.
func SlowMachine() bool { return slowMachine() }

var slowMachine = sync.OnceValue(func() bool {
	if slow, err := strconv.ParseBool(os.Getenv(envSlow)); err == nil {
		return slow
	}
	slow := PageFaultTime() > slowPageFault
	_ = os.Setenv(envSlow, strconv.FormatBool(slow)) // the name is valid
	return slow
})

// ParallelTests returns the number of parallel tests to run at a time: most, or half of it on a slow machine and under
// the race detector, but at least GOMAXPROCS.
func ParallelTests(most int) int {
	if SlowMachine() || race.Enabled {
		most /= 2
	}
	return max(most, runtime.GOMAXPROCS(0))
}

// Parallel calls t.Parallel, except under the race detector: there the processors are the bound, and a session that is
// short does not outlive the work of more tests.
func Parallel(t *testing.T) {
	if !race.Enabled {
		t.Parallel()
	}
}

// TTL returns the TTL of sessions that are short but must outlive the load of other tests: elsewhere, twice that on a
// slow machine, and twice that again under the race detector.
func TTL(elsewhere time.Duration) time.Duration {
	if SlowMachine() {
		elsewhere *= 2
	}
	if race.Enabled {
		elsewhere *= 2
	}
	return elsewhere
}

// SetParallel sets the flag -parallel to ParallelTests(most), unless the command line sets it. It is for packages with
// tests that wait for leases and processes more than they compute. Call it in TestMain, after flag.Parse.
func SetParallel(most int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(ParallelTests(most))) // the flag is registered
	}
}

// PageFaultTime returns the duration of the first touch of a page of memory. It is measured once, in a few
// milliseconds.
var PageFaultTime = sync.OnceValue(func() time.Duration {
	const page, pages = 4096, 1024
	var rounds [5][]byte // all are kept, because freed memory is reused and has been touched
	best := time.Hour
	for i := range rounds {
		rounds[i] = make([]byte, pages*page)
		began := time.Now()
		for at := 0; at < len(rounds[i]); at += page {
			rounds[i][at] = 1
		}
		best = min(best, time.Since(began)/pages)
	}
	runtime.KeepAlive(rounds)
	return best
})

// Package pace tells how many tests that mostly wait a machine can run at a time, and how short their sessions may be.
//
// There are virtual machines on which whatever asks the kernel for something costs several times what it should, and
// most of all a process that starts: two cores are busy with half of what they do elsewhere, and leases run out because
// nobody gets round to renewing them.
//
// Not promised: anything about how fast the machine computes, or how busy it is.
package pace

import (
	"flag"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// slowFault is several times what the first touch of a page takes on a machine of its own, and on most virtual ones.
const slowFault = 5 * time.Microsecond

// Slow reports whether this machine is one of those.
func Slow() bool { return Fault() > slowFault }

// AtOnce is how many parallel tests to run at a time: most, and half of that on a slow machine.
func AtOnce(most int) int {
	if Slow() {
		most /= 2
	}
	return max(most, runtime.GOMAXPROCS(0))
}

// TTL is that of sessions that are short, and all the same to outlive whatever runs beside them: on a slow machine
// twice what it is elsewhere.
func TTL(elsewhere time.Duration) time.Duration {
	if Slow() {
		return 2 * elsewhere
	}
	return elsewhere
}

// RunMore sets the flag -parallel to AtOnce(most), unless the command line gives it: for packages whose tests wait, for
// leases and processes, more than they compute. Call it in TestMain, after flag.Parse.
func RunMore(most int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(AtOnce(most))) // it is registered
	}
}

// Fault is what the first touch of a page of memory takes. It is measured once, in a few milliseconds.
var Fault = sync.OnceValue(func() time.Duration {
	const page, pages = 4096, 1024
	var rounds [5][]byte // all are kept: what is freed is given out again, and has been touched
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

//go:build linux

package integration

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// allocate keeps some 20 MB and replaces 20 MB/s of it, so that the collector runs several times a second if GOGC is
// 10.
func allocate(ctx context.Context) {
	kept := make([][]*[64]byte, 1000)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(kept) {
		kept[i] = make([]*[64]byte, 300)
		for j := range kept[i] {
			kept[i][j] = new([64]byte)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// compute keeps a number of threads busy until ctx ends.
func compute(ctx context.Context, threads int) {
	runtime.GOMAXPROCS(threads)
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for value := uint64(1); ctx.Err() == nil; {
				for range 1 << 20 {
					value = value*6364136223846793005 + 1442695040888963407
				}
				runtime.KeepAlive(value)
			}
		})
	}
	wg.Wait()
}

// schedulingDelays makes a thread sleep for a millisecond again and again until ctx ends, and returns how much later
// than that it ran each time.
func schedulingDelays(ctx context.Context) (late []time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	period := unix.NsecToTimespec(int64(time.Millisecond))
	for ctx.Err() == nil {
		began := time.Now()
		_ = unix.Nanosleep(&period, nil) // a signal ends it early
		late = append(late, max(0, time.Since(began)-time.Millisecond))
	}
	return late
}

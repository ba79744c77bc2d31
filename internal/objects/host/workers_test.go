package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A slow function delays no other function, however many there are; neither does one that leaves its goroutine.
func TestWorkersRunWhatWaitsBehindOthers(t *testing.T) {
	var w workers
	release := make(chan struct{})
	var ran sync.WaitGroup
	for i := range 1000 {
		ran.Add(1)
		require.True(t, w.run(func() {
			ran.Done()
			if i%3 == 0 {
				runtime.Goexit()
			}
			<-release
		}))
	}
	ran.Wait() // two of three have not returned
	close(release)
	w.stop()
	require.False(t, w.run(func() {}))
	w.wait()
}

// Functions that were added before stop are run.
func TestWorkersEndWhenAllHasRun(t *testing.T) {
	for range 200 {
		var w workers
		var ran atomic.Int64
		for range 64 {
			require.True(t, w.run(func() { ran.Add(1) }))
		}
		w.stop()
		w.wait()
		require.EqualValues(t, 64, ran.Load())
	}
}

// Taken functions make room, even if the queue is never empty.
func TestWorkersForgetWhatWasTaken(t *testing.T) {
	var w workers
	w.waking = true // the test takes in place of the workers
	const waiting = 10
	for i := range 10000 {
		require.True(t, w.run(func() {}))
		if i >= waiting {
			require.NotNil(t, w.takeFunc())
		}
	}
	require.Len(t, w.queue[w.head:], waiting)
	require.Less(t, cap(w.queue), 8*waiting)
}

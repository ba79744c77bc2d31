package host

import "sync"

// maxIdle is how many goroutines wait for work at most.
const maxIdle = 64

// workers run functions in goroutines, some of which are kept when they have nothing to do: a new one would grow
// its stack for each call anew, which takes as long as all the rest. The zero value works.
type workers struct {
	mu      sync.Mutex
	idle    []chan func()
	stopped bool
	all     sync.WaitGroup
}

// run runs f in a goroutine; it reports false, and does not, after stop.
func (w *workers) run(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	if last := len(w.idle) - 1; last >= 0 { // whose stack is the most likely to be in the cache
		worker := w.idle[last]
		w.idle = w.idle[:last]
		worker <- f // it has room for one
		return true
	}
	w.all.Add(1)
	go w.work(f)
	return true
}

func (w *workers) work(f func()) {
	defer w.all.Done()
	next := make(chan func(), 1)
	for ok := true; ok; f, ok = <-next {
		f()
		w.mu.Lock()
		keep := !w.stopped && len(w.idle) < maxIdle
		if keep {
			w.idle = append(w.idle, next)
		}
		w.mu.Unlock()
		if !keep {
			return
		}
	}
}

// stop lets no further function run; wait returns when those that run have ended.
func (w *workers) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, worker := range w.idle {
		close(worker)
	}
	w.idle = nil
}

func (w *workers) wait() { w.all.Wait() }

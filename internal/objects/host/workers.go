package host

import "sync"

// maxIdle is how many goroutines wait for work at most.
const maxIdle = 64

// workers run functions in goroutines, some of which are kept when they have nothing to do: a new one would grow
// its stack for each call anew, which takes as long as all the rest. One that is woken wakes the next one before it
// runs anything, if there is more to run: so a goroutine is woken for each function that takes long, and not for each
// of many that are short. The zero value works.
type workers struct {
	mu      sync.Mutex
	queue   []func() // in order; those before head were taken
	head    int
	waking  bool // a goroutine was woken, and has not looked at the queue since
	idle    []chan struct{}
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
	if w.head > len(w.queue)/2 { // it is never empty: what was taken makes room
		n := copy(w.queue, w.queue[w.head:])
		clear(w.queue[n:])
		w.queue, w.head = w.queue[:n], 0
	}
	w.queue = append(w.queue, f)
	w.wake()
	return true
}

// wake has a goroutine look at the queue, if none is about to. The lock is held.
func (w *workers) wake() {
	if w.waking {
		return
	}
	w.waking = true
	if last := len(w.idle) - 1; last >= 0 { // whose stack is the most likely to be in the cache
		worker := w.idle[last]
		w.idle = w.idle[:last]
		worker <- struct{}{} // it has room for one
		return
	}
	w.all.Add(1)
	go w.work()
}

// work runs functions, until enough other goroutines wait for some. A function that leaves its goroutine takes this one
// along.
func (w *workers) work() {
	defer w.all.Done()
	woken := make(chan struct{}, 1)
	for woke := true; ; {
		f, waits := w.next(woken, woke)
		if woke = f == nil; !woke {
			f()
			continue
		}
		if !waits {
			return
		}
		<-woken
	}
}

// next is the function to run now. Where there is none, the goroutine is to wait until it is woken, or to end if that
// will not be.
func (w *workers) next(woken chan struct{}, woke bool) (f func(), waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if woke {
		w.waking = false
	}
	if f = w.take(); f != nil || w.stopped || len(w.idle) >= maxIdle {
		return f, false
	}
	w.idle = append(w.idle, woken)
	return nil, true
}

// take is the first function of the queue, nil where there is none. If there are more, another goroutine is to look at
// them, for this one may take long. The lock is held.
func (w *workers) take() func() {
	if w.head == len(w.queue) {
		return nil
	}
	f := w.queue[w.head]
	w.queue[w.head] = nil
	w.head++
	if w.head < len(w.queue) {
		w.wake()
	} else {
		w.queue, w.head = w.queue[:0], 0
	}
	return f
}

// stop lets no further function be added; those that were are run. wait returns when they have ended.
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

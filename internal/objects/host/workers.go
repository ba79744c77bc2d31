package host

import "sync"

// maxIdleWorkers limits the goroutines that wait for work.
const maxIdleWorkers = 64

// workers runs functions in goroutines and keeps some of those that become idle. A new goroutine would grow its
// stack anew for each call, which takes as long as all the rest. A woken goroutine wakes the next one before it
// runs anything, if more functions are queued. So slow functions get a goroutine each, and many short ones
// share a goroutine. The zero value is ready for use.
type workers struct {
	mu      sync.Mutex
	queue   []func() // in order; functions before head were taken
	head    int
	waking  bool // a goroutine was woken and has not yet looked at the queue
	idle    []chan struct{}
	stopped bool
	all     sync.WaitGroup
}

// run runs f in a goroutine. After stop it does not run f and returns false.
func (w *workers) run(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	if w.head > len(w.queue)/2 { // under steady load the queue is never empty, so reuse the space of taken functions
		n := copy(w.queue, w.queue[w.head:])
		clear(w.queue[n:])
		w.queue, w.head = w.queue[:n], 0
	}
	w.queue = append(w.queue, f)
	w.wake()
	return true
}

// wake wakes or starts a goroutine to look at the queue, unless one is about to. The caller holds the lock.
func (w *workers) wake() {
	if w.waking {
		return
	}
	w.waking = true
	if last := len(w.idle) - 1; last >= 0 { // its stack is the most likely to be in the cache
		worker := w.idle[last]
		w.idle = w.idle[:last]
		worker <- struct{}{} // does not block: the channel has capacity 1
		return
	}
	w.all.Add(1)
	go w.workLoop()
}

// workLoop runs functions until none is queued and enough other goroutines are idle. A function that leaves its
// goroutine by runtime.Goexit ends this one.
func (w *workers) workLoop() {
	defer w.all.Done()
	woken := make(chan struct{}, 1)
	for woke := true; ; {
		f, waits := w.nextFunc(woken, woke)
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

// nextFunc returns the next function to run. If there is none, f is nil, and waits reports whether the goroutine
// must wait to be woken or end.
func (w *workers) nextFunc(woken chan struct{}, woke bool) (f func(), waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if woke {
		w.waking = false
	}
	if f = w.takeFunc(); f != nil || w.stopped || len(w.idle) >= maxIdleWorkers {
		return f, false
	}
	w.idle = append(w.idle, woken)
	return nil, true
}

// takeFunc removes and returns the first function of the queue, or nil if it is empty. If more are queued, it wakes
// another goroutine, because this one may be busy for long. The caller holds the lock.
func (w *workers) takeFunc() func() {
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

// stop refuses further functions. Those already queued still run; wait waits for them.
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

package elector

import "sync"

// announcer reports who leads, in order and one at a time, in a goroutine of its own: the one that is
// notified may take long, and a renewal must not wait for that.
type announcer struct {
	notify func(string)

	mu     sync.Mutex
	more   sync.Cond
	queue  []string
	last   string
	closed bool
}

func newAnnouncer(notify func(string)) *announcer {
	a := &announcer{notify: notify}
	a.more.L = &a.mu
	return a
}

// say has a change reported; what is no change is not.
func (a *announcer) say(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if who != a.last {
		a.last = who
		a.queue = append(a.queue, who)
		a.more.Signal()
	}
}

// close: nothing more is said. What was said is still reported.
func (a *announcer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.more.Signal()
}

// run notifies, until close was called and all is reported.
func (a *announcer) run() {
	for {
		a.mu.Lock()
		for len(a.queue) == 0 && !a.closed {
			a.more.Wait()
		}
		if len(a.queue) == 0 {
			a.mu.Unlock()
			return
		}
		who := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
		a.notify(who)
	}
}

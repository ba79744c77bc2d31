package elector

import "sync"

// announcer tells who leads, in order and one at a time, in a goroutine of its own: whoever is
// told may take long, and a renewal must not wait for that.
type announcer struct {
	tell func(string)

	mu     sync.Mutex
	more   sync.Cond
	queue  []string
	last   string
	closed bool
}

func newAnnouncer(tell func(string)) *announcer {
	a := &announcer{tell: tell}
	a.more.L = &a.mu
	return a
}

// say has a change told; what is no change is not.
func (a *announcer) say(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if who != a.last {
		a.last = who
		a.queue = append(a.queue, who)
		a.more.Signal()
	}
}

// close: nothing more is said. What was said is still told.
func (a *announcer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.more.Signal()
}

// run tells, until close was called and all is told.
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
		a.tell(who)
	}
}

package elector

import "sync"

// announcer reports the leader to a callback, in order and one call at a time. It uses a goroutine of its own,
// because the callback may take long and a renewal must not wait for it.
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

// enqueueLeader enqueues the leader if it has changed.
func (a *announcer) enqueueLeader(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if who != a.last {
		a.last = who
		a.queue = append(a.queue, who)
		a.more.Signal()
	}
}

// close ends the queue. Entries in it are still reported.
func (a *announcer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.more.Signal()
}

// run calls notify until close was called and the queue is empty.
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

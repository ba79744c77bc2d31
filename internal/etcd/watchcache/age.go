package watchcache

import (
	"sync"
	"time"
)

// age is when the snapshot was last known to lack nothing. The zero value is ready.
type age struct {
	mu      sync.Mutex
	current time.Time // the view lacked nothing that etcd had done then
	awaited int64     // a revision that a read has shown, and the view has not reached
	since   time.Time // when that read was answered
	reached int64
}

// read: the view is what a read showed that was sent at that time.
func (a *age) read(revision int64, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current, a.reached, a.awaited = sent, revision, 0
}

// saw: etcd has answered at that revision just now. The first of several that the view has not reached
// counts, for a view that follows busy writers may never reach the last.
func (a *age) saw(revision int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case revision <= a.reached:
		a.current = now
	case a.awaited == 0:
		a.awaited, a.since = revision, now
	}
}

// reach: the view has come to that revision.
func (a *age) reach(revision int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached = max(a.reached, revision)
	if a.awaited != 0 && a.awaited <= a.reached {
		if a.since.After(a.current) {
			a.current = a.since
		}
		a.awaited = 0
	}
}

// Current is the latest time of which it is known that the snapshot lacks nothing that etcd had done
// until then, but for the time that etcd's answer was on its way; zero before the first read. While etcd
// answers it is renewed with every round of the session, and does not go on while etcd is away.
func (m *Mirror) Current() time.Time {
	m.age.mu.Lock()
	defer m.age.mu.Unlock()
	return m.age.current
}

package watchcache

import (
	"sync"
	"time"
)

// snapshotAge records when the snapshot was last known to be complete. The zero value is ready to use.
type snapshotAge struct {
	mu           sync.Mutex
	completeAsOf time.Time // the snapshot contained everything that etcd had committed by then
	awaited      int64     // a revision that a read has shown and the snapshot has not reached; 0: none
	answeredAt   time.Time // when that read was answered
	reached      int64
}

// recordRead records that the snapshot comes from a read sent at the instant sent.
func (a *snapshotAge) recordRead(revision int64, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.completeAsOf, a.reached, a.awaited = sent, revision, 0
}

// recordAnswer records that etcd has just answered at the given revision. Of several revisions that the snapshot has
// not reached the first one counts, because a snapshot that follows busy writers may never reach the last.
func (a *snapshotAge) recordAnswer(revision int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case revision <= a.reached:
		a.completeAsOf = now
	case a.awaited == 0:
		a.awaited, a.answeredAt = revision, now
	}
}

// recordReached records that the snapshot has reached the given revision.
func (a *snapshotAge) recordReached(revision int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached = max(a.reached, revision)
	if a.awaited != 0 && a.awaited <= a.reached {
		if a.answeredAt.After(a.completeAsOf) {
			a.completeAsOf = a.answeredAt
		}
		a.awaited = 0
	}
}

// CompleteAsOf returns the latest time at which the snapshot is known to have contained everything that etcd had
// committed, to within the time that etcd's answer took to arrive; zero before the first read. Every round of
// the session moves it forward while etcd answers. It stands still while etcd cannot be reached.
func (m *Mirror) CompleteAsOf() time.Time {
	m.age.mu.Lock()
	defer m.age.mu.Unlock()
	return m.age.completeAsOf
}

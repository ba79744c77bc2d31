package schedule

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// World is the common part of one schedule's world.
type World struct {
	Began time.Time
	// Mu is held during each event, which happen one after the other.
	Mu     sync.Mutex
	Seed   uint64
	Rand   *rand.Rand // the schedule's; guarded by Mu
	Log    *Transcript
	Counts Counts
	// Etcd and the number of its members are set by StartEtcd.
	Etcd    *modeletcd.Etcd
	Members int
	// Over stops all further events; guarded by Mu.
	Over bool
	// RequestTimeout is the time after which processes give up a request.
	RequestTimeout time.Duration
	// Happened, if set, is called after each event, with Mu held.
	Happened func()
	// Hindered, if set, is called when a fault is about to end whose effects on a link last until a time. The link
	// is nil for all links. Mu is held.
	Hindered func(l *Link, until time.Duration)

	down    atomic.Bool  // etcd is down
	sick    atomic.Int32 // members of etcd that stand still or are cut off
	lasting []func()     // end the active faults; guarded by Mu

	rulesMu sync.Mutex
	healed  bool // no further fault begins
	rules   []Rule

	failureMu sync.Mutex
	failure   string
}

func newWorld(seed uint64, transcript bool) *World {
	now := time.Now()
	return &World{Seed: seed, Rand: NewRand(seed, "schedule"), Log: &Transcript{on: transcript, began: now}, Began: now,
		RequestTimeout: time.Second}
}

// StartEtcd starts a model of etcd with this number of members.
func (w *World) StartEtcd(members int) {
	r := NewRand(w.Seed, "etcd")
	w.Members = members
	w.Etcd = modeletcd.NewCluster(members, func(least, most time.Duration) time.Duration { // etcd holds its lock
		return Between(r, least, most)
	})
}

// Now returns the time since the schedule began.
func (w *World) Now() time.Duration { return time.Since(w.Began) }

// Between draws a duration from a to b.
func (w *World) Between(a, b time.Duration) time.Duration { return Between(w.Rand, a, b) }

// OneIn returns true in one of n cases.
func (w *World) OneIn(n int) bool { return w.Rand.IntN(n) == 0 }

// After schedules an event after d.
func (w *World) After(d time.Duration, do func()) {
	happen := func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if w.Over {
			return
		}
		do()
		if w.Happened != nil {
			w.Happened()
		}
	}
	if d <= 0 {
		// A timer would do the same. But with the race detector Go 1.26 crashes at times when two threads run timers of one
		// bubble that are due at once.
		go happen()
		return
	}
	time.AfterFunc(d, happen)
}

// Fail records that a promise was broken. Only the first failure counts.
func (w *World) Fail(format string, args ...any) {
	w.failureMu.Lock()
	defer w.failureMu.Unlock()
	if w.failure == "" {
		w.failure = fmt.Sprintf("after %v: ", w.Now().Round(time.Microsecond)) + fmt.Sprintf(format, args...)
		w.Log.Addf("", "BROKEN: %s", w.failure)
	}
}

// Failure returns the broken promise, or "" if there is none.
func (w *World) Failure() string {
	w.failureMu.Lock()
	defer w.failureMu.Unlock()
	return w.failure
}

// EndAfter ends a fault after d, or when everything is healed. end is called once, with Mu held. The caller holds
// Mu.
func (w *World) EndAfter(d time.Duration, end func()) {
	once := sync.OnceFunc(end)
	if w.IsHealed() {
		once()
		return
	}
	w.lasting = append(w.lasting, once)
	w.After(d, once)
}

// IsHealed reports whether HealAll was called.
func (w *World) IsHealed() bool {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	return w.healed
}

// HealAll ends all faults, and lets no further one begin. The caller holds Mu.
func (w *World) HealAll() {
	w.rulesMu.Lock()
	w.healed, w.rules = true, nil
	w.rulesMu.Unlock()
	w.Log.Addf("", "all faults end")
	for _, end := range w.lasting {
		end()
	}
}

// markHindered reports that the effects of a fault at a link, or at all, last until a time.
func (w *World) markHindered(l *Link, until time.Duration) {
	if w.Hindered != nil {
		w.Hindered(l, until)
	}
}

// Package watchprogress tracks how far one watch of the cluster's range has come, and decides when to check
// whether it lags. It has no clock, no goroutine and no I/O. Package watchcache keeps the present value and
// runs the timer.
//
//	read at R ──► Since(R) ──(opened)──► calm ◄──(reached)── awaiting ──(timer)──► compare with etcd
//	                                       ▲ └──(a newer revision is known)──►┘           │
//	                                       └────(nothing is missing: Checked)◄────────────┤
//	                                         (something is): read again, after a Pause ◄──┘
//
// A watch reaches a revision by an event, by a progress report, or because a comparison with etcd has shown
// that there is nothing to deliver up to it. `etcd grpc-proxy` answers no requests for progress, so behind it
// comparisons are the only way while others write.
//
// Not promised: a calm watch may have missed something. Only a reader of etcd learns of a newer revision, and
// reports it here.
package watchprogress

// Watch records how far one watch has come. It is immutable.
type Watch struct {
	reached int64 // newest revision covered by the read before the watch, by events, progress reports or comparisons
	awaited int64 // the revision that the timer waits for; 0: none
	opened  bool
}

// Timer is an action on the timer that detects a lagging watch. The timer also runs while the watch is being
// opened.
type Timer int

// The actions on the timer.
const (
	Leave Timer = iota // do not change it
	Stop
	Start // restart it, and ask etcd for a progress report
)

// Since returns a watch, not opened yet, that continues from a read at the given revision.
func Since(read int64) Watch { return Watch{reached: read} }

// From returns the revision at which to open the watch.
func (w Watch) From() int64 { return w.reached + 1 }

// Reached returns the revision up to which nothing is missing.
func (w Watch) Reached() int64 { return w.reached }

// Awaited returns the revision that should have been reached when the timer fires; 0 if the watch was not even
// opened.
func (w Watch) Awaited() int64 { return w.awaited }

// Opened reports whether etcd has opened the watch.
func (w Watch) Opened() bool { return w.opened }

// Answered returns the watch after an answer of etcd with the given revision in its header. An opening answer,
// which only says that the watch was opened, proves nothing about the events before its revision. known is the
// newest revision that this process knows.
func (w Watch) Answered(revision int64, opening bool, known int64) (Watch, Timer) {
	if !opening {
		w.reached = max(w.reached, revision)
	}
	caughtUp := w.awaited != 0 && w.reached >= w.awaited
	if w.opened && !caughtUp {
		return w, Leave
	}
	w.opened, w.awaited = true, 0
	if w, timer := w.Reported(known); timer == Start {
		return w, timer
	}
	return w, Stop
}

// Checked returns the watch after a comparison with etcd has shown that nothing is missing up to the awaited
// revision.
func (w Watch) Checked(known int64) (Watch, Timer) {
	w.reached, w.awaited = max(w.reached, w.awaited), 0
	return w.Reported(known)
}

// Reported returns the watch after the process has learned that the revision known exists.
func (w Watch) Reported(known int64) (Watch, Timer) {
	if !w.opened || w.awaited != 0 || known <= w.reached {
		return w, Leave
	}
	w.awaited = known
	return w, Start
}

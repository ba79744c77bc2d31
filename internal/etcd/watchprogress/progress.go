// Package watchprogress tracks how far one watch of the cluster's range has come, and decides when to check
// whether it lags. It has no clock, no goroutine and no I/O. Package watchcache keeps the present value and
// runs the timer.
//
//	read at R ──► NewWatch ──(opened)──► calm ◄──(reached)── awaiting ──(timer)──► compare with etcd
//	                                       ▲ └──(a newer revision is known)──►┘           │
//	                                       └───────────────(OnNothingMissing)◄────────────┤
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

// TimerAction is an action on the timer that detects a lagging watch. The timer also runs while the watch is being
// opened.
type TimerAction int

// The actions on the timer.
const (
	LeaveTimer TimerAction = iota // do not change it
	StopTimer
	StartTimer // restart it, and ask etcd for a progress report
)

// NewWatch returns a watch, not opened yet, that continues from a read at the given revision.
func NewWatch(read int64) Watch { return Watch{reached: read} }

// StartRevision returns the revision at which to open the watch.
func (w Watch) StartRevision() int64 { return w.reached + 1 }

// ReachedRevision returns the revision up to which nothing is missing.
func (w Watch) ReachedRevision() int64 { return w.reached }

// AwaitedRevision returns the revision that should have been reached when the timer fires; 0 if the watch was not even
// opened.
func (w Watch) AwaitedRevision() int64 { return w.awaited }

// IsOpen reports whether etcd has opened the watch.
func (w Watch) IsOpen() bool { return w.opened }

// OnAnswer returns the watch after an answer of etcd with the given revision in its header. An opening answer,
// which only says that the watch was opened, proves nothing about the events before its revision. known is the
// newest revision that this process knows.
func (w Watch) OnAnswer(revision int64, opening bool, known int64) (Watch, TimerAction) {
	if !opening {
		w.reached = max(w.reached, revision)
	}
	caughtUp := w.awaited != 0 && w.reached >= w.awaited
	if w.opened && !caughtUp {
		return w, LeaveTimer
	}
	w.opened, w.awaited = true, 0
	if w, timer := w.OnKnownRevision(known); timer == StartTimer {
		return w, timer
	}
	return w, StopTimer
}

// OnNothingMissing returns the watch after a comparison with etcd has shown that nothing is missing up to the awaited
// revision.
func (w Watch) OnNothingMissing(known int64) (Watch, TimerAction) {
	w.reached, w.awaited = max(w.reached, w.awaited), 0
	return w.OnKnownRevision(known)
}

// OnKnownRevision returns the watch after the process has learned that the revision known exists.
func (w Watch) OnKnownRevision(known int64) (Watch, TimerAction) {
	if !w.opened || w.awaited != 0 || known <= w.reached {
		return w, LeaveTimer
	}
	w.awaited = known
	return w, StartTimer
}

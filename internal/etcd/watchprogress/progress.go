// Package watchprogress is how far one watch of the cluster's range has come, and whether
// it keeps up: no clock, no goroutine, no I/O. Package watchcache keeps the present one and
// runs the timer.
//
//	read at R ──► Since(R) ──(opened)──► calm ◄──(reached)── awaiting ──(timer)──► compare with etcd
//	                                       ▲ └──(a newer revision is known)──►┘           │
//	                                       └────(nothing is missing: Checked)◄────────────┤
//	                                         (something is): read again, after a Pause ◄──┘
//
// A watch reaches a revision by an event, by a progress report, or because a comparison with etcd
// has shown that there is nothing to deliver up to it. Behind `etcd grpc-proxy`, which answers no
// request for progress, that is the only way while others write.
//
// Not promised: that a watch which is calm has missed nothing. Only who reads etcd
// knows of a newer revision, and reports it.
package watchprogress

// Watch is how far one watch has come. It is immutable.
type Watch struct {
	reached int64 // by the read before it, by events, progress reports or comparisons
	awaited int64 // the revision that the timer runs for; 0: none
	opened  bool
}

// Timer is what to do about the timer that says when a watch lags. It also runs while
// the watch is being opened.
type Timer int

// What can be done.
const (
	Leave Timer = iota // as it is
	Stop
	Start // anew, and ask etcd for a progress report
)

// Since is a watch, to be opened, that goes on from a read at the given revision.
func Since(read int64) Watch { return Watch{reached: read} }

// From is the revision to open it at.
func (w Watch) From() int64 { return w.reached + 1 }

// Reached is the revision up to which nothing is missing.
func (w Watch) Reached() int64 { return w.reached }

// Awaited is the revision that should have been reached when the timer rings; 0 if
// the watch was not even opened.
func (w Watch) Awaited() int64 { return w.awaited }

// Opened reports whether etcd has answered.
func (w Watch) Opened() bool { return w.opened }

// Answered is the watch after an answer of etcd's with that revision in its header.
// The answer that only says that the watch was opened proves nothing about the events
// before its revision. Known is the newest revision that this process knows of.
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

// Checked is the watch after a comparison with etcd has shown that nothing is missing up to
// the awaited revision.
func (w Watch) Checked(known int64) (Watch, Timer) {
	w.reached, w.awaited = max(w.reached, w.awaited), 0
	return w.Reported(known)
}

// Reported is the watch after somebody learned that the revision known exists.
func (w Watch) Reported(known int64) (Watch, Timer) {
	if !w.opened || w.awaited != 0 || known <= w.reached {
		return w, Leave
	}
	w.awaited = known
	return w, Start
}

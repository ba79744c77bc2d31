// Package suspicion decides how a member treats another one that it watches: when signs become evidence, and
// which action follows. It is a state machine without clock, goroutine or I/O; package crash carries out its
// actions.
//
//	            refused, refused, refused
//	opening ────────── or ──────────────► accusing ──► waiting ──► verifying ──► removing ──► over
//	 │  ▲ ▲     another instance answers     │      (grace period)     │            │
//	 │  │ └──────────────────────────────────┴────────────┴────────────┴────────────┘
//	 │  │              could not be written; refuted: it lives, let it rest; silent now
//	 ▼  │ broke, or goodbye: look again later
//	watching
//
// After the grace period the member's address is tried once more. The member is removed only if that attempt
// fails as the ones before did.
//
// The grace period is five times the time that a living member needs to refute (see GracePeriod). It grows with
// the member's distance from etcd, which the member's record names (Distance). For a one-way distance d it is
// between 10 d and 12.5 d, and 100 ms at least. A member that is too far away for its TTL is left to its lease
// (LeftToLease).
//
// Silence, time-outs and unreachable hosts are no evidence here: the lease decides, or package silence does.
//
// Not promised: evidence is not proof. The port of a living process may refuse connections. The accusation, the
// grace period and the guards of the removal cover that.
package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

const (
	// refusalPause is the pause between two of the refusals that make evidence.
	refusalPause = 5 * time.Millisecond
	// goodbyePause is the time that a member has to leave after its goodbye; it may die during that time.
	goodbyePause = 2 * time.Second
	// takeoverPause is the time that another instance at a member's address has to remove that member itself,
	// because it notices first. When a whole cluster restarts, each removal is then requested once and not
	// three times.
	takeoverPause = 2 * time.Second
	// uncountedAfter is the number of failures in a row after which a member does not count as watched.
	uncountedAfter = 3
	// unreachableAfter is the number of failures in a row that is reported to the operator: about two seconds of
	// silence, more if each attempt takes long.
	unreachableAfter = 9
	// maxOpenPause is the longest pause before another attempt after silence.
	maxOpenPause  = 5 * time.Second
	maxRestFactor = 60
)

// Phase is the progress of a case.
type Phase int

// The phases.
const (
	Opening   Phase = iota // a watch on the member is being opened, or will be
	Watching               // the watch is open
	Accusing               // there is evidence, and the accusation is being written
	Waiting                // the accused has its grace period
	Verifying              // the grace period is over, and the member's address is tried once more
	Removing               // the removal was sent
	Over                   // the member is gone
)

// Event is the outcome of an action.
type Event int

// The events. Those up to Silence are outcomes of Open, Goodbye to Flapped those of Listen, and so on.
const (
	Opened          Event = iota // the watch is open, with the instance that is registered
	Other                        // another instance answered at the member's address
	Refused                      // no program listens there
	Silence                      // any other failure: no evidence
	Goodbye                      // the watch ended with a goodbye
	Broke                        // the watch ended without one
	Flapped                      // the same for a watch that had stood only briefly
	Accused                      // etcd acknowledged the accusation
	NotAccused                   // the accusation could not be written, or this node may not accuse at present
	GracePeriodOver              // the grace period has passed
	Removed                      // etcd confirmed the removal
	Refuted                      // the accusation no longer stands: the accused lives
	NotRemoved                   // the outcome of the removal is unknown
	Unregistered                 // the accused incarnation is no longer registered
)

// String returns the event's name.
func (e Event) String() string {
	return [...]string{"opened", "other", "refused", "silence", "goodbye", "broke", "flapped", "accused", "not-accused",
		"grace-period-over", "removed", "refuted", "not-removed", "unregistered"}[e]
}

// ActionKind is the kind of an action.
type ActionKind int

// The kinds of actions.
const (
	Nothing ActionKind = iota // the case is over
	Open                      // open a watch on the member
	Listen                    // wait for the watch to end
	Accuse                    // write the accusation
	Wait                      // wait for the end of the grace period, or of the accusation
	Remove                    // remove the member's keys, guarded by the accusation
)

// String returns the action's name.
func (d ActionKind) String() string {
	return [...]string{"nothing", "open", "listen", "accuse", "wait", "remove"}[d]
}

// Action is an action to carry out after a delay.
type Action struct {
	Do    ActionKind
	After time.Duration
	// Evidence is the evidence of an accusation.
	Evidence string
}

// Case is one member's record of another. It is a value. The zero value is the record of a member that was just
// met; its first action is to open a watch.
type Case struct {
	Phase    Phase
	Refusals int // in a row
	Others   int // times in a row that another instance answered
	Failures int // attempts in a row that had no result
	Rests    int // accusations in a row that were refuted
}

// The kinds of evidence.
const (
	evidenceRefused       = "connections to its address are refused"
	evidenceOtherInstance = "its address answers as another instance"
)

// CanDrop reports whether the case can be dropped now: no accusation is in progress. One that the case gave up, after
// silence for example, stands until the member refutes it or is gone.
func (c Case) CanDrop() bool { return c.Phase <= Watching }

// CountsAsWatched reports whether the member counts as watched: there is no evidence against it, and it has not
// repeatedly failed to answer. While it does not count, another member is watched as well.
func (c Case) CountsAsWatched() bool {
	return c.Phase == Watching || c.Phase == Opening && c.Failures < uncountedAfter
}

// Unreachable reports whether the member has now failed to answer often enough to notify the operator. It is
// true once for each such series of failures.
func (c Case) Unreachable() bool { return c.Phase == Opening && c.Failures == unreachableAfter }

// BeginCase returns the first step of a case about a process that was removed on evidence n times in a row, without an
// answer in between, and has registered again. If n is positive the process lives, and is left alone like one that
// refuted.
func BeginCase(n int, s Settings) (Case, Action) {
	if n == 0 {
		return Case{}, Action{Do: Open}
	}
	return Case{Rests: n - 1}.restMember(s)
}

// OnEvent returns the case after an event, and the next action. Events that are impossible in the present phase
// change nothing and return the action Nothing.
func (c Case) OnEvent(e Event, s Settings) (Case, Action) {
	switch {
	case (c.Phase == Opening || c.Phase == Verifying) && e == Opened:
		return Case{Phase: Watching, Failures: c.Failures}, Action{Do: Listen}
	case c.Phase == Opening && e == Other:
		if c.Others++; c.Others > 1 {
			return c.beginAccusation(evidenceOtherInstance)
		}
		return c, Action{Do: Open, After: takeoverPause}
	case c.Phase == Opening && e == Refused:
		c.Refusals++
		if c.Refusals >= s.Confirmations {
			return c.beginAccusation(evidenceRefused)
		}
		return c, Action{Do: Open, After: refusalPause}
	case (c.Phase == Opening || c.Phase == Verifying) && e == Silence, c.Phase == Watching && e == Flapped,
		c.Phase == Accusing && e == NotAccused, (c.Phase == Waiting || c.Phase == Removing) && e == NotRemoved:
		return c.openAgain()
	case c.Phase == Watching && e == Broke:
		return Case{}, Action{Do: Open}
	case c.Phase == Accusing && e == Accused:
		c.Phase = Waiting
		return c, Action{Do: Wait, After: s.GracePeriod}
	case c.Phase == Waiting && e == GracePeriodOver:
		c.Phase = Verifying
		return c, Action{Do: Open}
	case c.Phase == Verifying && (e == Refused || e == Other):
		c.Phase = Removing
		return c, Action{Do: Remove}
	case (c.Phase == Waiting || c.Phase == Removing) && e == Refuted:
		return c.restMember(s)
	case c.Phase == Watching && e == Goodbye:
		return Case{}, Action{Do: Open, After: goodbyePause}
	case c.Phase == Removing && e == Removed,
		c.Phase >= Accusing && e == Unregistered:
		c.Phase = Over
	}
	return c, Action{}
}

func (c Case) beginAccusation(evidence string) (Case, Action) {
	c.Phase = Accusing
	return c, Action{Do: Accuse, Evidence: evidence}
}

// restMember leaves a living member to its lease for a while, longer each time in a row.
func (c Case) restMember(s Settings) (Case, Action) {
	rest := backoff.Policy{First: s.Rest, Last: maxRestFactor * s.Rest}.Delay(c.Rests+1, backoff.NoJitter)
	return Case{Rests: c.Rests + 1}, Action{Do: Open, After: rest}
}

// openAgain starts over, with growing delays. It uses no jitter, because these delays determine how soon a
// crash is detected, and the two watchers of a member do not overload it.
func (c Case) openAgain() (Case, Action) {
	after := backoff.Policy{First: refusalPause, Last: maxOpenPause}.Delay(c.Failures+1, backoff.NoJitter)
	return Case{Failures: c.Failures + 1, Rests: c.Rests}, Action{Do: Open, After: after}
}

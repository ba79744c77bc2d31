// Package suspicion is what one member makes of another one that it watches: when a
// sign becomes evidence, and what to do about it. It is a state machine without
// clock, goroutine or I/O; package crash carries its actions out.
//
//	            refused, refused, refused
//	opening ────────── or ──────────────► accusing ──► waiting ──► verifying ──► removing ──► over
//	 │  ▲ ▲     another instance answers     │      (grace period)     │            │
//	 │  │ └──────────────────────────────────┴────────────┴────────────┴────────────┘
//	 │  │              could not be written; refuted: it lives, let it rest; silent now
//	 ▼  │ broke, or goodbye: look again later
//	watching
//
// After the grace period the member's address is tried once more: it is removed only if
// that fails as it did before.
//
// The grace period is what a living member needs to refute, five times over (see GracePeriod): it
// follows how far the member is from etcd, by what its record says (Distance). For one at d,
// one way, it is from 10 d to 12.5 d, and 100 ms at least. One that is too far for its TTL is
// left to its lease (LeftToLease).
//
// Silence, time-outs and unreachable hosts are no evidence: the lease decides.
//
// Not promised: that evidence is proof. A port can be refused that belongs to a
// living process; that is what the accusation, the grace period and the guards of the
// removal are for.
package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

// Settings are the numbers that the machine works with. All are required.
type Settings struct {
	// Confirmations is how many refusals in a row are evidence.
	Confirmations int
	// GracePeriod is how long the accused has to refute, at least: see func GracePeriod.
	GracePeriod time.Duration
	// Rest is how long one that refuted is let alone; each time in a row doubles it,
	// up to 60 times as long.
	Rest time.Duration
}

const (
	// again is the pause between two refusals of the few that make evidence.
	again = 5 * time.Millisecond
	// farewell is how long one that said goodbye has to leave; it may die on the way.
	farewell = 2 * time.Second
	// takeOver is how long another instance at a member's address has to remove that one
	// itself: it is the first to know. Where a whole cluster starts again, each removal is
	// so asked for once and not three times.
	takeOver = 2 * time.Second
	// manyFailures in a row make a member one that cannot be watched at present.
	manyFailures = 3
	// unreachable failures in a row are worth a word: about two seconds of silence, more
	// where each attempt takes long.
	unreachable = 9
	// mostPatience is the longest pause before another attempt after silence.
	mostPatience = 5 * time.Second
	mostRests    = 60
)

// Phase is how far a case has come.
type Phase int

// The phases.
const (
	Opening   Phase = iota // a watch on the member is being opened, or will be
	Watching               // it stands
	Accusing               // there is evidence, the accusation is being written
	Waiting                // the accused has its grace period
	Verifying              // the grace period is over, its address is tried once more
	Removing               // the removal was sent
	Over                   // it is gone
)

// Event is what happened.
type Event int

// The events. The ones up to Broke answer the action Open, and so on.
const (
	Opened          Event = iota // the watch stands, with the instance that is registered
	Other                        // another instance answered at the member's address
	Refused                      // nobody listens there
	Silence                      // anything else: no evidence
	Goodbye                      // the watch ended in good order
	Broke                        // the watch ended otherwise
	Flapped                      // so did one that had stood for less than a moment
	Accused                      // etcd has the accusation
	NotAccused                   // it could not be written, or this node may not accuse at present
	GracePeriodOver              // the grace period has passed
	Removed                      // etcd confirmed the removal
	Refuted                      // the accusation stood no longer: the accused lives
	NotRemoved                   // nobody knows what became of the removal
	Unregistered                 // the accused incarnation is registered no longer
)

// String is the event's name.
func (e Event) String() string {
	return [...]string{"opened", "other", "refused", "silence", "goodbye", "broke", "flapped", "accused", "not-accused",
		"grace-period-over", "removed", "refuted", "not-removed", "unregistered"}[e]
}

// Do is what is to be done next.
type Do int

// What can be done.
const (
	Nothing Do = iota // the case is over
	Open              // open a watch on the member
	Listen            // wait for the watch to end
	Accuse            // write the accusation
	Wait              // let the grace period pass, or see what becomes of the accusation
	Remove            // remove the member's keys, guarded by the accusation
)

// String is the action's name.
func (d Do) String() string {
	return [...]string{"nothing", "open", "listen", "accuse", "wait", "remove"}[d]
}

// Action is what to do, and after which time.
type Action struct {
	Do    Do
	After time.Duration
	// Evidence is what to accuse with.
	Evidence string
}

// Case is what one member knows of another. It is a value; the zero value is a
// member that was just met: open a watch on it.
type Case struct {
	Phase    Phase
	Refusals int // in a row
	Others   int // times in a row that another instance answered
	Failures int // attempts in a row that came to nothing
	Rests    int // accusations in a row that were refuted
}

// The evidence there is.
const (
	nobodyListens = "connections to its address are refused"
	otherAnswers  = "its address answers as another instance"
)

// Interruptible reports whether the case can be given up at this point: nothing of
// it stands in etcd.
func (c Case) Interruptible() bool { return c.Phase <= Watching }

// Counts reports whether the member is one of those who are watched: there is no
// evidence against it, and it has not failed to answer again and again. While it does not
// count, another one is watched as well.
func (c Case) Counts() bool {
	return c.Phase == Watching || c.Phase == Opening && c.Failures < manyFailures
}

// Unreachable reports whether the member has failed to answer so often, now for the
// first time, that an operator should know.
func (c Case) Unreachable() bool { return c.Phase == Opening && c.Failures == unreachable }

// Again is the first step of a case about a process that was removed before, n times, and
// registered anew: it lives, and it is let rest as one that refuted.
func Again(n int, s Settings) (Case, Action) {
	if n == 0 {
		return Case{}, Action{Do: Open}
	}
	return Case{Rests: n - 1}.rest(s)
}

// On is the case after an event, and what to do then. Events that cannot be in the
// present phase change nothing and ask for nothing.
func (c Case) On(e Event, s Settings) (Case, Action) {
	switch {
	case (c.Phase == Opening || c.Phase == Verifying) && e == Opened:
		return Case{Phase: Watching, Failures: c.Failures}, Action{Do: Listen}
	case c.Phase == Opening && e == Other:
		if c.Others++; c.Others > 1 {
			return c.accuse(otherAnswers)
		}
		return c, Action{Do: Open, After: takeOver}
	case c.Phase == Opening && e == Refused:
		c.Refusals++
		if c.Refusals >= s.Confirmations {
			return c.accuse(nobodyListens)
		}
		return c, Action{Do: Open, After: again}
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
		return c.rest(s)
	case c.Phase == Watching && e == Goodbye:
		return Case{}, Action{Do: Open, After: farewell}
	case c.Phase == Removing && e == Removed,
		c.Phase >= Accusing && e == Unregistered:
		c.Phase = Over
	}
	return c, Action{}
}

func (c Case) accuse(evidence string) (Case, Action) {
	c.Phase = Accusing
	return c, Action{Do: Accuse, Evidence: evidence}
}

// rest leaves one that lives to its lease for a while, longer each time in a row.
func (c Case) rest(s Settings) (Case, Action) {
	rest := backoff.Policy{First: s.Rest, Last: mostRests * s.Rest}.Delay(c.Rests+1, backoff.NoJitter)
	return Case{Rests: c.Rests + 1}, Action{Do: Open, After: rest}
}

// openAgain starts over, later and later. Without jitter: how soon a crash is detected hangs on it,
// and a member has two watchers, who do not crowd.
func (c Case) openAgain() (Case, Action) {
	after := backoff.Policy{First: again, Last: mostPatience}.Delay(c.Failures+1, backoff.NoJitter)
	return Case{Failures: c.Failures + 1, Rests: c.Rests}, Action{Do: Open, After: after}
}

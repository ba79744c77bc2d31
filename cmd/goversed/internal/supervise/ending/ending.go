// Package ending decides when a command that may run only for a while is ended, and how, as
// values: no clock, no process, no I/O. The guard of a command runs it, and so does the
// holder of the leadership or lock, as the second line behind the guard.
//
//	            ordered, alone, deadline near,
//	            or the command has exited                Stop later, or no time left
//	running ───────────────────────────────► asked ─────────────────────────────► killed
//	                                  (SIGTERM)                            (SIGKILL, again and again)
//	                       all gone: leave ◄─────┴───────────────────────────────┘
//
// Who is hurried kills at once.
//
// Not promised: that what is killed is gone; the kernel can keep a process. Who decides goes
// on until it is seen to be gone, and nothing is released before.
package ending

import "time"

// Instant is one moment on two clocks, in nanoseconds: as another process on this machine
// reads them too.
type Instant struct {
	Boot int64 `json:"boot"` // runs on while the machine is suspended, where the system has such a clock
	Wall int64 `json:"wall"` // since 1970; can be stepped
}

// Add is the moment d later.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Boot: i.Boot + int64(d), Wall: i.Wall + int64(d)}
}

// Until is the time left on the clock that has less of it.
func (i Instant) Until(t Instant) time.Duration {
	return time.Duration(min(t.Boot-i.Boot, t.Wall-i.Wall))
}

// Times are how long things take.
type Times struct {
	// Stop is how long the command has between SIGTERM and SIGKILL.
	Stop time.Duration `json:"stop"`
	// Margin is how long before the deadline SIGKILL is sent: for the kernel to carry it out.
	Margin time.Duration `json:"margin"`
	// GracePeriod is how long the command has after a signal that asked for the end and was passed to
	// it; 0: as long as it likes. It is the holder's alone.
	GracePeriod time.Duration `json:"-"`
}

// Why is the reason for which a command is ended.
type Why string

// The reasons. The first one that holds stays the reason.
const (
	// Exited: the command ended by itself, and left others of its group behind.
	Exited Why = "exited"
	// Ordered: the holder said so.
	Ordered Why = "ordered"
	// Alone: the holder is gone.
	Alone Why = "alone"
	// Deadline: no later deadline came in time.
	Deadline Why = "deadline"
	// Hurried: who asked for the end does not wait for it any longer.
	Hurried Why = "hurried"
)

// Do is what to do at one instant.
type Do int

// What there is to do.
const (
	Nothing Do = iota
	Ask        // SIGTERM; of the holder: tell the guard to end the command
	Kill       // SIGKILL
	Leave      // nothing is left to guard
	Hurry      // of the holder: tell the guard to send SIGKILL at once
)

// Step is what to do now, and after how long to look again at the latest.
type Step struct {
	Do     Do
	Why    Why // of Ask and of Kill
	Within time.Duration
}

const (
	// look is how often the clocks are read when nothing is to be done: timers stand still
	// in a suspended machine.
	look = 250 * time.Millisecond
	// soon is how often it is looked whether what is being ended is gone.
	soon = 5 * time.Millisecond
)

// View is what a guard knows at one instant.
type View struct {
	Now     Instant
	Until   Instant // the last deadline that was sent
	Ordered bool    // to end the command
	Hurry   bool    // ordered to kill it
	Alone   bool    // the holder is gone
	Exited  bool    // the command itself
	Gone    bool    // the command, and all of its group
	Asked   Instant // when SIGTERM was sent; zero: it was not
	Why     Why     // and why
}

// Guard is the step of a guard.
func (t Times) Guard(v View) Step {
	if v.Gone {
		return Step{Do: Leave, Why: v.Why}
	}
	left := v.Now.Until(v.Until) - t.Margin // until SIGKILL at the latest
	why := v.Why
	switch {
	case why != "":
	case v.Exited:
		why = Exited
	case v.Hurry:
		why = Hurried
	case v.Ordered:
		why = Ordered
	case v.Alone:
		why = Alone
	case left <= t.Stop:
		why = Deadline
	default:
		return Step{Within: min(left-t.Stop, look)}
	}
	asked := v.Asked != (Instant{})
	if asked {
		left = min(left, v.Now.Until(v.Asked.Add(t.Stop)))
	}
	switch {
	case left <= 0, v.Hurry:
		return Step{Do: Kill, Why: why, Within: soon}
	case !asked:
		return Step{Do: Ask, Why: why, Within: soon}
	}
	return Step{Why: why, Within: min(left, soon)}
}

// Hold is what the holder knows at one instant.
type Hold struct {
	Now       Instant
	Until     Instant // the last deadline it sent the guard
	Lost      bool    // what it held
	Ordered   bool    // the guard knows that
	Asked     Instant // when a signal that asks for the end was passed on first; zero: none was
	Again     bool    // another one came: not to wait any longer
	Hurried   bool    // the guard knows that
	Unguarded bool    // the guard is gone
	Gone      bool    // the command, and all of its group
}

// Holder is the step of the holder: it tells the guard to end the command when what it held is
// lost, and to kill it when it was asked to end twice, or once and the grace period is over. It ends
// the command itself, by Kill, when the guard is gone, or has not done it when half of the margin
// is left.
func (t Times) Holder(v Hold) Step {
	left := v.Now.Until(v.Until) - t.Margin/2
	switch {
	case v.Gone:
		return Step{Do: Leave}
	case v.Unguarded, left <= 0:
		return Step{Do: Kill, Within: soon}
	case v.Lost && !v.Ordered:
		return Step{Do: Ask, Within: min(left, soon)}
	case v.Hurried:
	case v.Again:
		return Step{Do: Hurry, Within: min(left, soon)}
	case t.GracePeriod > 0 && v.Asked != (Instant{}):
		gracePeriod := v.Now.Until(v.Asked.Add(t.GracePeriod))
		if gracePeriod <= 0 {
			return Step{Do: Hurry, Within: min(left, soon)}
		}
		left = min(left, gracePeriod)
	}
	return Step{Within: min(left, look)}
}

// Package ending decides when and how a command that may run only for a limited time is ended. It works on
// values alone: it has no clock, process or I/O. The guard of a command follows its decisions, and so does the
// holder of the leadership or lock, as a second line of defence behind the guard.
//
//	            ordered, alone, deadline near,
//	            or the command has exited                Stop later, or no time left
//	running ───────────────────────────────► asked ─────────────────────────────► killed
//	                                  (SIGTERM)                            (SIGKILL, again and again)
//	                       all gone: leave ◄─────┴───────────────────────────────┘
//
// A guard that is hurried kills at once.
//
// Not promised: a killed process may still exist, because the kernel can keep it. Guard and holder repeat
// SIGKILL until it is gone, and release nothing before.
package ending

import "time"

// Instant is one moment on two clocks, in nanoseconds. All processes of this machine share these clocks.
type Instant struct {
	Boot int64 `json:"boot"` // advances while the machine is suspended, where the system has such a clock
	Wall int64 `json:"wall"` // since 1970; can be stepped
}

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Boot: i.Boot + int64(d), Wall: i.Wall + int64(d)}
}

// Until returns the time left until t, on the clock that has less of it.
func (i Instant) Until(t Instant) time.Duration {
	return time.Duration(min(t.Boot-i.Boot, t.Wall-i.Wall))
}

// Times configures the decisions.
type Times struct {
	// Stop is the time between SIGTERM and SIGKILL.
	Stop time.Duration `json:"stop"`
	// Margin is the time before the deadline at which SIGKILL is sent, to let the kernel carry it out.
	Margin time.Duration `json:"margin"`
	// GracePeriod is the time the command has after a signal that asks for the end was passed to it; 0 means no
	// limit. Only the holder uses it.
	GracePeriod time.Duration `json:"-"`
}

// Why is the reason to end a command.
type Why string

// Reasons to end a command. The first one that applies is kept.
const (
	// Exited means that the command ended by itself and left processes of its group behind.
	Exited Why = "exited"
	// Ordered means that the holder gave the order.
	Ordered Why = "ordered"
	// Alone means that the holder is gone.
	Alone Why = "alone"
	// Deadline means that no later deadline came in time.
	Deadline Why = "deadline"
	// Hurried means that the end was requested and is no longer waited for.
	Hurried Why = "hurried"
)

// Do is the action to take at one instant.
type Do int

// Actions to take.
const (
	Nothing Do = iota
	Ask        // send SIGTERM; as the holder: order the guard to end the command
	Kill       // send SIGKILL
	Leave      // nothing is left to guard
	Hurry      // as the holder: order the guard to send SIGKILL at once
)

// Step is the action to take now, and the longest time until the next decision.
type Step struct {
	Do     Do
	Why    Why // set with Ask and Kill
	Within time.Duration
}

const (
	// look is the interval at which the clocks are read while there is nothing to do. It is short because
	// timers stop in a suspended machine.
	look = 250 * time.Millisecond
	// soon is the interval of checks while a command is being ended.
	soon = 5 * time.Millisecond
)

// View is the state a guard sees at one instant.
type View struct {
	Now     Instant
	Until   Instant // the last deadline received
	Ordered bool    // the holder ordered the end of the command
	Hurry   bool    // the holder ordered to kill it
	Alone   bool    // the holder is gone
	Exited  bool    // the command itself has exited
	Gone    bool    // nothing of the command and its group is left
	Asked   Instant // when SIGTERM was sent; zero: not yet
	Why     Why     // reason of the last step
}

// Guard returns the next step of a guard.
func (t Times) Guard(v View) Step {
	if v.Gone {
		return Step{Do: Leave, Why: v.Why}
	}
	left := v.Now.Until(v.Until) - t.Margin // time until the last moment for SIGKILL
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

// Hold is the state the holder sees at one instant.
type Hold struct {
	Now       Instant
	Until     Instant // the last deadline sent to the guard
	Lost      bool    // the term or lock is lost
	Ordered   bool    // the guard has the order to end the command
	Asked     Instant // when the first signal that asks for the end was passed on; zero: none was
	Again     bool    // another such signal came: kill without waiting
	Hurried   bool    // the guard has the order to kill the command
	Unguarded bool    // the guard is gone
	Gone      bool    // nothing of the command and its group is left
}

// Holder returns the next step of the holder. The holder orders the guard to end the command when the term or
// lock is lost. It orders the guard to kill the command after a second signal, or when the grace period after
// the first is over. It kills by itself when the guard is gone, or has not ended the command when half of the
// margin is left.
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

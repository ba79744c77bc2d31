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

// Reason is the reason to end a command.
type Reason string

// Reasons to end a command. The first one that applies is kept.
const (
	// Exited means that the command ended by itself and left processes of its group behind.
	Exited Reason = "exited"
	// EndOrdered means that the holder gave the order.
	EndOrdered Reason = "ordered"
	// HolderGone means that the holder is gone.
	HolderGone Reason = "alone"
	// DeadlineReached means that no later deadline came in time.
	DeadlineReached Reason = "deadline"
	// KillOrdered means that the end was requested and is no longer waited for.
	KillOrdered Reason = "hurried"
)

// Action is the action to take at one instant.
type Action int

// Actions to take.
const (
	DoNothing  Action = iota
	SendTerm          // send SIGTERM; as the holder: order the guard to end the command
	SendKill          // send SIGKILL
	LeaveGuard        // nothing is left to guard
	OrderKill         // as the holder: order the guard to send SIGKILL at once
)

// Step is the action to take now, and the longest time until the next decision.
type Step struct {
	Action      Action
	Reason      Reason // set with SendTerm and SendKill
	CheckWithin time.Duration
}

const (
	// idleInterval is the interval at which the clocks are read while there is nothing to do. It is short because
	// timers stop in a suspended machine.
	idleInterval = 250 * time.Millisecond
	// endInterval is the interval of checks while a command is being ended.
	endInterval = 5 * time.Millisecond
)

// GuardView is the state a guard sees at one instant.
type GuardView struct {
	Now         Instant
	Until       Instant // the last deadline received
	EndOrdered  bool    // the holder ordered the end of the command
	KillOrdered bool    // the holder ordered to kill it
	HolderGone  bool    // the holder is gone
	Exited      bool    // the command itself has exited
	Gone        bool    // nothing of the command and its group is left
	Asked       Instant // when SIGTERM was sent; zero: not yet
	Reason      Reason  // reason of the last step
}

// NextGuardStep returns the next step of a guard.
func (t Times) NextGuardStep(v GuardView) Step {
	if v.Gone {
		return Step{Action: LeaveGuard, Reason: v.Reason}
	}
	left := v.Now.Until(v.Until) - t.Margin // time until the last moment for SIGKILL
	why := v.Reason
	switch {
	case why != "":
	case v.Exited:
		why = Exited
	case v.KillOrdered:
		why = KillOrdered
	case v.EndOrdered:
		why = EndOrdered
	case v.HolderGone:
		why = HolderGone
	case left <= t.Stop:
		why = DeadlineReached
	default:
		return Step{CheckWithin: min(left-t.Stop, idleInterval)}
	}
	asked := v.Asked != (Instant{})
	if asked {
		left = min(left, v.Now.Until(v.Asked.Add(t.Stop)))
	}
	switch {
	case left <= 0, v.KillOrdered:
		return Step{Action: SendKill, Reason: why, CheckWithin: endInterval}
	case !asked:
		return Step{Action: SendTerm, Reason: why, CheckWithin: endInterval}
	}
	return Step{Reason: why, CheckWithin: min(left, endInterval)}
}

// HolderView is the state the holder sees at one instant.
type HolderView struct {
	Now         Instant
	Until       Instant // the last deadline sent to the guard
	Lost        bool    // the term or lock is lost
	EndOrdered  bool    // the guard has the order to end the command
	Asked       Instant // when the first signal that asks for the end was passed on; zero: none was
	Again       bool    // another such signal came: kill without waiting
	KillOrdered bool    // the guard has the order to kill the command
	Unguarded   bool    // the guard is gone
	Gone        bool    // nothing of the command and its group is left
}

// NextHolderStep returns the next step of the holder. The holder orders the guard to end the command when the term or
// lock is lost. It orders the guard to kill the command after a second signal, or when the grace period after
// the first is over. It kills by itself when the guard is gone, or has not ended the command when half of the
// margin is left.
func (t Times) NextHolderStep(v HolderView) Step {
	left := v.Now.Until(v.Until) - t.Margin/2
	switch {
	case v.Gone:
		return Step{Action: LeaveGuard}
	case v.Unguarded, left <= 0:
		return Step{Action: SendKill, CheckWithin: endInterval}
	case v.Lost && !v.EndOrdered:
		return Step{Action: SendTerm, CheckWithin: min(left, endInterval)}
	case v.KillOrdered:
	case v.Again:
		return Step{Action: OrderKill, CheckWithin: min(left, endInterval)}
	case t.GracePeriod > 0 && v.Asked != (Instant{}):
		gracePeriod := v.Now.Until(v.Asked.Add(t.GracePeriod))
		if gracePeriod <= 0 {
			return Step{Action: OrderKill, CheckWithin: min(left, endInterval)}
		}
		left = min(left, gracePeriod)
	}
	return Step{CheckWithin: min(left, idleInterval)}
}

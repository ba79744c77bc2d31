// Package heartbeat decides, from the heartbeats that come over a watch, for how long the process at its other end has
// been silent. It is pure: values, without a clock or a goroutine of their own.
//
//	               Opened, and it sends heartbeats
//	not counting ──────────────────────────────────► counting: each look adds the time since the last one,
//	     ▲                                           a heartbeat or an opened watch begins at nothing
//	     └────────────── Goodbye ────────────────────────┘
//
// A process that does not send heartbeats, an older version, is never called silent. The clock goes on when a watch
// breaks: a process that stood still and whose connection was given up is as silent as before.
//
// The side that listens may have stood still itself, and find all that was sent meanwhile unread. So what a look adds
// is no more than a moment: a pause of one's own is nobody's silence. (To begin anew after each pause would hide the
// silence from a busy machine, which pauses more often than that.)
//
// Not promised: that silence is death. A process that stands still goes on, perhaps.
package heartbeat

import "time"

const (
	// Every is the time between two heartbeats.
	Every = 500 * time.Millisecond
	// SilentAfter is how long a process is silent before others are to know.
	SilentAfter = 2 * time.Second
	// LookEvery is the time between two looks.
	LookEvery = 100 * time.Millisecond
	// pause is the longest time between two looks that counts as such: beyond it, this process stood still.
	pause = 150 * time.Millisecond
)

// Listener knows for how long the process at the other end of a watch has been silent. The zero value has heard of
// none yet.
type Listener struct {
	counting bool
	heard    uint64 // heartbeats of the present watch, at the last look
	looked   time.Time
	silent   time.Duration
}

// Opened returns the Listener after a watch was opened on a process that says whether it sends heartbeats.
func (l Listener) Opened(now time.Time, sends bool) Listener {
	return Listener{counting: sends, looked: now}
}

// Goodbye returns the Listener after the process has said that it stops, or once nobody listens to it any more.
func (l Listener) Goodbye() Listener { return Listener{} }

// Look returns the Listener at now, when so many heartbeats of the present watch have been heard.
func (l Listener) Look(now time.Time, heard uint64) Listener {
	if !l.counting {
		return l
	}
	if heard != l.heard {
		return Listener{counting: true, heard: heard, looked: now}
	}
	l.silent += min(max(now.Sub(l.looked), 0), pause)
	l.looked = now
	return l
}

// Silent returns for how long nothing has been heard.
func (l Listener) Silent() time.Duration { return l.silent }

// patience is how many heartbeats are sent to a process from which none comes. What it does not read must not grow
// without bounds, nor hold up its sender.
const patience = 20

// Sender decides when a heartbeat is sent. The zero value begins.
type Sender struct {
	heard   uint64 // heartbeats of the other side, at the last tick that heard of one
	unheard int    // ticks since
}

// Tick returns the Sender after a tick, when so many heartbeats of the other side have been heard, and whether one is
// to be sent now.
func (s Sender) Tick(heard uint64) (next Sender, send bool) {
	if heard != s.heard {
		return Sender{heard: heard}, true
	}
	s.unheard = min(s.unheard+1, patience+1)
	return s, s.unheard <= patience
}

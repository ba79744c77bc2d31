// Package heartbeat computes, from the heartbeats that arrive over a watch, for how long the process at its
// other end has been silent. It is pure: values, without a clock or a goroutine of their own.
//
//	             OnOpened, and it sends heartbeats
//	not counting ──────────────────────────────────► counting: each OnCheck adds the time since the last one,
//	     ▲                                           a heartbeat or an opened watch begins at nothing
//	     └──────────── OnGoodbye ────────────────────────┘
//
// A process of an older version, which sends no heartbeats, never counts as silent. The count continues when a
// watch breaks: a process that stood still, and lost its connection for that, is as silent as before.
//
// The listening process may have stood still itself, and then finds all that was sent meanwhile unread. Its own
// pause must not count as the other's silence, so each check adds only a short time at most. (Restarting the
// count after each pause would hide the silence from a busy machine, which pauses more often than that.)
//
// Not promised: a silent process need not be dead. It may continue after a pause.
package heartbeat

import "time"

const (
	// SendEvery is the time between two heartbeats.
	SendEvery = 500 * time.Millisecond
	// SilentAfter is the silence after which other nodes are notified.
	SilentAfter = 2 * time.Second
	// CheckEvery is the time between two checks.
	CheckEvery = 100 * time.Millisecond
	// maxCounted is the longest time that one check adds. If more time has passed, this process stood still.
	maxCounted = 150 * time.Millisecond
)

// Listener measures how long the process at the other end of a watch has been silent. The zero value counts
// nothing.
type Listener struct {
	counting  bool
	heard     uint64 // heartbeats of the present watch at the last check
	lastCheck time.Time
	silent    time.Duration
}

// OnOpened returns the Listener after a watch was opened. sends reports whether the watched process sends
// heartbeats.
func (l Listener) OnOpened(now time.Time, sends bool) Listener {
	return Listener{counting: sends, lastCheck: now}
}

// OnGoodbye returns the Listener after the process has announced that it stops, or after this process has stopped
// listening.
func (l Listener) OnGoodbye() Listener { return Listener{} }

// OnCheck returns the Listener after a look at now. heard is the number of heartbeats of the present watch so far.
func (l Listener) OnCheck(now time.Time, heard uint64) Listener {
	if !l.counting {
		return l
	}
	if heard != l.heard {
		return Listener{counting: true, heard: heard, lastCheck: now}
	}
	l.silent += min(max(now.Sub(l.lastCheck), 0), maxCounted)
	l.lastCheck = now
	return l
}

// SilentFor returns the time for which no heartbeat has been heard.
func (l Listener) SilentFor() time.Duration { return l.silent }

// maxUnheard limits the heartbeats sent to a process that sends none back. Unread heartbeats must neither grow
// without bound nor block the sender.
const maxUnheard = 20

// Sender decides when to send a heartbeat. The zero value is ready to use.
type Sender struct {
	heard   uint64 // heartbeats of the other side when the last new one was noticed
	unheard int    // ticks since then
}

// OnTick returns the Sender after a tick, and whether to send a heartbeat now. heard is the number of heartbeats
// of the other side so far.
func (s Sender) OnTick(heard uint64) (next Sender, send bool) {
	if heard != s.heard {
		return Sender{heard: heard}, true
	}
	s.unheard = min(s.unheard+1, maxUnheard+1)
	return s, s.unheard <= maxUnheard
}

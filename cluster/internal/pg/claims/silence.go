package claims

import "time"

// silence records for how long the counter of another session has not moved. It is immutable.
//
// Time is counted by the observer's own monotonic clock, between looks that were answered. A gap between two looks
// counts for a quarter of the deadline at most: after a pause of the observer or of the server, a session that lives
// has time to show it. That costs a session that has ended three more looks.
type silence struct {
	beat       int64
	lasts      time.Duration
	alive      bool          // its connection was found to exist
	terminated bool          // its connection was terminated, when it had lasted for
	since      time.Duration // then
}

// observe returns the silence after a look, gap after the one before it, at a session with that counter.
func (s silence) observe(beat int64, gap, deadline time.Duration) silence {
	if beat != s.beat {
		return silence{beat: beat}
	}
	s.lasts += min(gap, deadline/4)
	return s
}

// measure is an action against a session that is silent.
type measure int

const (
	measureNone measure = iota
	// measureEnd ends the session if its connection has ended.
	measureEnd
	// measureTerminate ends the connection: its process stands still, or the network to it is cut.
	measureTerminate
	// measureForce ends the session, whatever its connection does. Its holder's deadline has passed long ago.
	measureForce
)

// nextMeasure returns the measure that may be taken now.
func (s silence) nextMeasure(deadline time.Duration) measure {
	switch {
	case s.lasts < deadline:
		return measureNone
	case !s.alive:
		return measureEnd
	case !s.terminated:
		return measureTerminate
	case s.lasts < s.since+deadline:
		return measureNone
	case s.lasts < s.since+2*deadline:
		return measureEnd
	}
	return measureForce
}

// foundAlive returns the silence after the connection was found to exist.
func (s silence) foundAlive() silence {
	s.alive = true
	return s
}

// afterTermination returns the silence after an attempt to terminate the connection.
func (s silence) afterTermination() silence {
	s.terminated, s.since = true, s.lasts
	return s
}

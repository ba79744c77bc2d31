package session

import "time"

// epoch anchors the monotonic clock. It is never changed.
var epoch = time.Now()

// instant is one moment on both clocks, in nanoseconds.
type instant struct {
	mono int64 // since epoch; stands still in a suspended machine
	wall int64 // since 1970; can be stepped
}

func now() instant { return at(time.Now()) }

func at(t time.Time) instant {
	return instant{mono: int64(t.Sub(epoch)), wall: t.UnixNano()}
}

func (i instant) add(d time.Duration) instant {
	return instant{mono: i.mono + int64(d), wall: i.wall + int64(d)}
}

// reached reports whether either clock has come to deadline.
func (i instant) reached(deadline instant) bool {
	return i.mono >= deadline.mono || i.wall >= deadline.wall
}

// until is the time left on the clock that has less of it.
func (i instant) until(deadline instant) time.Duration {
	return time.Duration(min(deadline.mono-i.mono, deadline.wall-i.wall))
}

// margin is what is taken off the TTL for clocks that run at different rates:
// 1 %, twenty times what NTP may slew a clock by.
func margin(ttl time.Duration) time.Duration { return ttl / 100 }

// deadlineFrom is the instant up to which a lease is ours that was granted or
// renewed by a request sent at sent.
func deadlineFrom(sent instant, ttl time.Duration) instant { return sent.add(ttl - margin(ttl)) }

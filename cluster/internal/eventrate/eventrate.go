// Package eventrate measures how many events happen per second, over the last ten seconds.
//
// Not promised: that the rate is exact. Events are counted by whole seconds of the wall clock.
package eventrate

import "time"

// rateSeconds is the number of seconds over which a rate is measured.
const rateSeconds = 10

// Rate counts events of the last seconds. The zero value is ready to use. It is not safe for concurrent use.
type Rate struct {
	seconds [rateSeconds + 1]int64 // by second modulo length; the current second is incomplete
	latest  int64
	first   time.Time
}

// Add counts n events at the time now.
func (r *Rate) Add(now time.Time, n int) {
	if r.first.IsZero() {
		r.first = now
	}
	r.clearOld(now)
	r.seconds[r.latest%int64(len(r.seconds))] += int64(n)
}

// clearOld clears the seconds that are too old.
func (r *Rate) clearOld(now time.Time) {
	second := now.Unix()
	for s := max(r.latest+1, second-rateSeconds); s <= second; s++ {
		r.seconds[s%int64(len(r.seconds))] = 0
	}
	r.latest = max(r.latest, second)
}

// PerSecond returns the rate over the last seconds, or since the first event if that is shorter, but over at
// least one second.
func (r *Rate) PerSecond(now time.Time) float64 {
	if r.first.IsZero() {
		return 0
	}
	r.clearOld(now)
	var sum int64
	for _, n := range r.seconds {
		sum += n
	}
	over := rateSeconds*time.Second + time.Duration(now.Nanosecond())
	over = max(min(over, now.Sub(r.first)), time.Second)
	return float64(sum) / over.Seconds()
}

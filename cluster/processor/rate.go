package processor

import "time"

// span is the number of seconds over which a rate is measured.
const span = 10

// rate counts events of the last seconds. The zero value is ready to use.
type rate struct {
	seconds [span + 1]int64 // by second modulo length; the current second is incomplete
	latest  int64
	first   time.Time
}

func (r *rate) add(now time.Time, n int) {
	if r.first.IsZero() {
		r.first = now
	}
	r.turn(now)
	r.seconds[r.latest%int64(len(r.seconds))] += int64(n)
}

// turn clears the seconds that are too old.
func (r *rate) turn(now time.Time) {
	second := now.Unix()
	for s := max(r.latest+1, second-span); s <= second; s++ {
		r.seconds[s%int64(len(r.seconds))] = 0
	}
	r.latest = max(r.latest, second)
}

// perSecond returns the rate over the last seconds, or since the first event if that is shorter, but over at
// least one second.
func (r *rate) perSecond(now time.Time) float64 {
	if r.first.IsZero() {
		return 0
	}
	r.turn(now)
	var sum int64
	for _, n := range r.seconds {
		sum += n
	}
	over := span*time.Second + time.Duration(now.Nanosecond())
	over = max(min(over, now.Sub(r.first)), time.Second)
	return float64(sum) / over.Seconds()
}

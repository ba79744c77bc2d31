package processor

import "time"

// span is over how many seconds a rate is taken.
const span = 10

// rate counts what happened in the last seconds. The zero value is ready.
type rate struct {
	seconds [span + 1]int64 // one for each second, by its number; the present one is not full
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

// turn forgets the seconds that are too long ago.
func (r *rate) turn(now time.Time) {
	second := now.Unix()
	for s := max(r.latest+1, second-span); s <= second; s++ {
		r.seconds[s%int64(len(r.seconds))] = 0
	}
	r.latest = max(r.latest, second)
}

// perSecond is the rate over the last seconds, or since the first of all if that is less, but
// not less than a second.
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

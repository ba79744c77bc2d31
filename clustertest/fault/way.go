package fault

import "time"

// shares is how many pieces a throttled second is cut into, so that a thin line is
// thin from the first bytes and not only on the average.
const shares = 50

// way is what is wrong with one direction. The zero value lets everything pass.
type way struct {
	blackhole bool
	delay     time.Duration
	rate      int // bytes a second, 0 for as fast as it goes
}

// admit decides about bytes that wait to be delivered: n of them may go now, the
// rest is to be asked about again. If none may, wait says how long that is so,
// negative: until something changes. Zero bytes are the beginning or the end of a
// connection. arrived is when they came in, free is when a throttled line has
// carried what went before.
func (w way) admit(now, arrived, free time.Time, waiting int) (n int, wait time.Duration) {
	if w.blackhole {
		return 0, -1
	}
	due := arrived.Add(w.delay)
	if w.rate > 0 && free.After(due) {
		due = free
	}
	if due.After(now) {
		return 0, due.Sub(now)
	}
	if w.rate > 0 {
		waiting = min(waiting, max(1, w.rate/shares))
	}
	return waiting, 0
}

// carry is how long n bytes occupy the line.
func (w way) carry(n int) time.Duration {
	if w.rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(w.rate)
}

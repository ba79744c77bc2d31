package fault

import "time"

// sharesPerSecond is the number of parts that a throttled second is cut into. A throttled line is thus slow from the
// first bytes on, not only on average.
const sharesPerSecond = 50

// way holds the faults of one direction. The zero value lets everything pass.
type way struct {
	blackhole bool
	delay     time.Duration
	rate      int // bytes a second, 0 for no limit
}

// admitBytes decides about the bytes that wait to be delivered. n of them may go now; the caller asks again about
// the rest. If none may go, wait is the time until the next attempt, negative for "until something changes".
// Zero waiting bytes stand for the start or the end of a connection. arrived is the time when the bytes came
// in; free is the time when a throttled line has carried everything before them.
func (w way) admitBytes(now, arrived, free time.Time, waiting int) (n int, wait time.Duration) {
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
		waiting = min(waiting, max(1, w.rate/sharesPerSecond))
	}
	return waiting, 0
}

// carryTime returns how long n bytes occupy the line.
func (w way) carryTime(n int) time.Duration {
	if w.rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(w.rate)
}

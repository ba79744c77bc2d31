package watchprogress

import "time"

// firstPause is the shortest one before the cluster is read again.
const firstPause = 50 * time.Millisecond

// Pauses are those before the cluster is read again because its watch was lost: none at first, then
// twice as long each time. It is immutable; the zero value is the first.
type Pauses struct{ losses int }

// Next is the pause before the next read, when the watch was lost after it stood for a time: at
// most longest. For each longest that it stood, one loss is forgotten: so a node whose watch is lost
// again and again reads the cluster about once in that time.
func (p Pauses) Next(stood, longest time.Duration) (Pauses, time.Duration) {
	p.losses -= int(min(stood/longest, time.Duration(p.losses)))
	pause := time.Duration(0)
	if p.losses > 0 {
		pause = min(firstPause<<min(p.losses-1, 20), longest)
	}
	if pause < longest { // or it would take the longer to forget
		p.losses++
	}
	return p, pause
}

package watchprogress

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

// ReadRetry is how long to wait after a read of the cluster that failed.
var ReadRetry = backoff.Policy{First: firstPause, Last: 750 * time.Millisecond}

// firstPause is the shortest one before the cluster is read again, chance apart. There is always one: many
// lose their watches together, when a member of etcd ends or has no leader.
const firstPause = 20 * time.Millisecond

// Pauses are those before the cluster is read again because its watch was lost: twice as long each
// time. It is immutable; the zero value is the first.
type Pauses struct{ losses int }

// Next is the pause before the next read, when the watch was lost after it stood for a time: at
// most longest, chance apart. For each longest that it stood, one loss is forgotten: so a node whose
// watch is lost again and again reads the cluster about once in that time. random is as for
// [backoff.Policy.Delay].
func (p Pauses) Next(stood, longest time.Duration, random float64) (Pauses, time.Duration) {
	p.losses -= int(min(stood/longest, time.Duration(p.losses)))
	again, losses := backoff.Policy{First: firstPause, Last: longest}, p.losses+1
	if again.Delay(losses, backoff.NoJitter) < longest { // or it would take the longer to forget
		p.losses = losses
	}
	return p, again.Delay(losses, random)
}

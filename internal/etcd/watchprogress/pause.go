package watchprogress

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

// ReadRetry is the policy for the delay after a failed read of the cluster.
var ReadRetry = backoff.Policy{First: firstPause, Last: 750 * time.Millisecond}

// firstPause is the shortest pause before the cluster is read again, jitter aside. There is always a pause,
// because many nodes lose their watches together when a member of etcd stops or has no leader.
const firstPause = 20 * time.Millisecond

// ReadPauses computes the pauses before the cluster is read again because its watch was lost. Each is twice as long
// as the one before. ReadPauses is immutable; the zero value has counted no losses.
type ReadPauses struct{ losses int }

// Next returns the pause before the next read, after a watch was lost that had stood for the given time. A
// pause is longest at most, jitter aside. For each longest that the watch stood, one earlier loss is forgotten,
// so a node that loses its watch repeatedly reads the cluster about once per longest. random is as for
// [backoff.Policy.Delay].
func (p ReadPauses) Next(stood, longest time.Duration, random float64) (ReadPauses, time.Duration) {
	p.losses -= int(min(stood/longest, time.Duration(p.losses)))
	again, losses := backoff.Policy{First: firstPause, Last: longest}, p.losses+1
	if again.Delay(losses, backoff.NoJitter) < longest { // a further loss would only take longer to forget
		p.losses = losses
	}
	return p, again.Delay(losses, random)
}

// SoonPause returns the pause before the cluster is read again because another node has named a change that the watch
// does not show, and etcd has it. That happens once for each such change.
func SoonPause(random float64) time.Duration {
	return backoff.Policy{First: firstPause, Last: firstPause}.Delay(1, random)
}

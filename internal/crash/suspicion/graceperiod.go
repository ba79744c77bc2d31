package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

const (
	// slowdown is how many times as long as one request takes the grace period is at least.
	// One round trip is what a refutation needs: the accusation's event comes to the accused,
	// the refutation goes to etcd. Five leave room for a packet lost on either way: TCP
	// sends it again after two round trips (RFC 8985).
	slowdown = 5
	// confirmable is how many grace periods must fit into a member's TTL, or it is left to its
	// lease. The same is asked of the configured grace period.
	confirmable = 3
)

// GracePeriod is the grace period of m after an accusation that etcd took that long to
// acknowledge: least, or five requests if that is longer, of the accuser's (where etcd is
// slow, the refutation is as slow) or of the accused's own, by its record.
func GracePeriod(least, took time.Duration, m *state.Member) time.Duration {
	return max(least, slowdown*took, slowdown*m.RoundTrip())
}

// LeftToLease reports whether m is too far from etcd to be removed on evidence: by the end
// of its grace period most of its lease would have run out. Nobody accuses it.
func LeftToLease(m *state.Member) bool {
	return m.RoundTrip() > 0 && confirmable*slowdown*m.RoundTrip() > time.Duration(m.TTL)*time.Second
}

// TTLFor is the smallest TTL in whole seconds with which a member at that round trip is not
// left to its lease.
func TTLFor(roundTrip time.Duration) time.Duration {
	return (confirmable*slowdown*roundTrip + time.Second - 1).Truncate(time.Second)
}

// ConfirmWithin is how long a member that lost a watcher may go on until etcd has confirmed its
// session: its grace period, and two of the least. A round with etcd is two requests, so it
// fits in twice. Removed although it lives, a member goes on for two of the least at most,
// unless its session gives a slow round more time (etcdsession.Session.Suspect). Own is its
// record as others see it, nil while it has none.
func ConfirmWithin(least time.Duration, own *state.Member) time.Duration {
	if own == nil {
		return confirmable * least
	}
	return GracePeriod(least, 0, own) + (confirmable-1)*least
}

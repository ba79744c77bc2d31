package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

const (
	// slowdown is the least ratio of the grace period to the time of one request. A refutation needs one round
	// trip: the accusation's event travels to the accused, and the refutation to etcd. Five leave room for a
	// packet lost on either way, which TCP sends again after two round trips (RFC 8985).
	slowdown = 5
	// periodsPerTTL is the number of grace periods that must fit into a member's TTL; otherwise the member is
	// left to its lease. The configured grace period must meet the same condition.
	periodsPerTTL = 3
)

// GracePeriod returns the grace period of m after an accusation. It is least, or five requests if that is
// longer: of the accuser's requests, which take took each (if etcd is slow, the refutation is as slow), or of
// the accused's own, according to its record.
func GracePeriod(least, took time.Duration, m *state.Member) time.Duration {
	return max(least, slowdown*took, slowdown*m.RoundTrip())
}

// LeftToLease reports whether m cannot be removed on evidence, because it is so far from etcd that most of its lease
// would have expired by the end of its grace period, because it has no server to answer watchers, or because its record
// is unreadable, which may be either. Such a member is not accused.
func LeftToLease(m *state.Member) bool {
	return m.ElectionOnly || m.InstanceID == "" || TooFar(m.RoundTrip(), time.Duration(m.TTL)*time.Second)
}

// TooFar reports whether a member at that round trip from etcd is left to its lease of that TTL.
func TooFar(roundTrip, ttl time.Duration) bool {
	return roundTrip > 0 && periodsPerTTL*slowdown*roundTrip > ttl
}

// LeastTTL returns the smallest TTL, in whole seconds, with which a member at that round trip is not left to its
// lease.
func LeastTTL(roundTrip time.Duration) time.Duration {
	return (periodsPerTTL*slowdown*roundTrip + time.Second - 1).Truncate(time.Second)
}

// ConfirmWithin returns the time for which a member that lost a watcher may continue until etcd has confirmed
// its session: its grace period and twice least. A round with etcd is two requests, so it fits in twice. A
// member that is removed alive continues for at most twice least, unless its session allows a slow round more
// time (etcdsession.Session.Suspect). own is the member's record as others see it, nil if it has none.
func ConfirmWithin(least time.Duration, own *state.Member) time.Duration {
	if own == nil {
		return periodsPerTTL * least
	}
	return GracePeriod(least, 0, own) + (periodsPerTTL-1)*least
}

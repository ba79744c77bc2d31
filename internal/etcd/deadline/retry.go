package deadline

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

var (
	// OpenRetry is the policy for the delay after a session could not be opened.
	OpenRetry = backoff.Policy{First: 50 * time.Millisecond, Last: time.Second}
	// RevokeRetry is the policy for the delay after a lease could not be revoked. It does not grow, because the
	// keys on the lease block other nodes.
	RevokeRetry = backoff.Policy{First: 100 * time.Millisecond, Last: 100 * time.Millisecond}
)

// SuspectedRetry is the pause after a failed renewal while a suspicion can still be cleared in time,
// SuspendedRetry the pause once it is too late. They neither grow nor have jitter. The first runs against a
// deadline. During the second nothing on the session counts until a renewal succeeds.
const SuspectedRetry, SuspendedRetry = 10 * time.Millisecond, 250 * time.Millisecond

package deadline

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

var (
	// OpenRetry is how long to wait after a session that could not be opened.
	OpenRetry = backoff.Policy{First: 50 * time.Millisecond, Last: time.Second}
	// RevokeRetry is how long to wait after a lease that could not be revoked. It does not grow: what
	// stands on the lease is in the way of others.
	RevokeRetry = backoff.Policy{First: 100 * time.Millisecond, Last: 100 * time.Millisecond}
)

// SuspectedRetry is the pause after a failed renewal while there is a suspicion to clear in time,
// SuspendedRetry when it is too late for that. They neither grow nor have jitter: the one runs against
// a deadline, and until a renewal ends the other nothing that stands on the session counts.
const SuspectedRetry, SuspendedRetry = 10 * time.Millisecond, 250 * time.Millisecond

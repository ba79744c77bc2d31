package etcdsession

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/histogram"
)

// renewalBounds range from an etcd next door to the request timeout of a session with a long TTL.
var renewalBounds = []time.Duration{time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second}

// Renewals counts the rounds of sessions. A round is a renewal and the read that confirms it. Renewals is safe
// for concurrent use; a nil Renewals counts nothing.
type Renewals struct {
	failed atomic.Int64
	took   *histogram.Durations // durations of the rounds that succeeded
}

// NewRenewals returns a Renewals with all counts at zero.
func NewRenewals() *Renewals { return &Renewals{took: histogram.NewDurations(renewalBounds...)} }

// observeRound counts a round. It ignores rounds that were abandoned for another one or because the session was
// closed.
func (r *Renewals) observeRound(took time.Duration, err error) {
	if r == nil || errors.Is(err, errSuspected) || errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		r.failed.Add(1)
		return
	}
	r.took.Observe(took)
}

// Read returns the durations of the rounds that succeeded and the number of those that failed.
func (r *Renewals) Read() (took stats.Durations, failed int64) {
	return r.took.Snapshot(), r.failed.Load()
}

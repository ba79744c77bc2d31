package etcdsession

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// renewalBounds reach from an etcd next door to the time-out of a request of a long session.
var renewalBounds = []time.Duration{time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second}

// Renewals counts the rounds of sessions: a renewal, and the read that confirms it. It is safe for concurrent use; the
// nil one counts nothing.
type Renewals struct {
	mu     sync.Mutex
	failed int64
	took   stats.Durations // of those that counted
}

// NewRenewals has counted nothing.
func NewRenewals() *Renewals { return &Renewals{took: stats.NewDurations(renewalBounds...)} }

// observe counts a round. One that was given up, for another one or because the session was closed, is none.
func (r *Renewals) observe(took time.Duration, err error) {
	if r == nil || errors.Is(err, errSuspected) || errors.Is(err, context.Canceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		return
	}
	r.took.Observe(took)
}

// Read is how long the rounds took that counted, and how many failed.
func (r *Renewals) Read() (took stats.Durations, failed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.took.Clone(), r.failed
}

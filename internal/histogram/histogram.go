// Package histogram records how long something took, for package stats.
package histogram

import (
	"sort"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// Durations counts durations by the first bound that they do not exceed. All methods are safe for concurrent use, and
// none takes a lock.
type Durations struct {
	bounds []time.Duration
	sum    atomic.Int64
	counts []atomic.Int64 // by bound; the last one counts those above all bounds
}

// NewDurations returns an empty histogram with the given bounds, which must be in increasing order.
func NewDurations(bounds ...time.Duration) *Durations {
	return &Durations{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Observe adds one duration.
func (d *Durations) Observe(took time.Duration) {
	d.sum.Add(int64(took))
	d.counts[sort.Search(len(d.bounds), func(i int) bool { return took <= d.bounds[i] })].Add(1)
}

// Snapshot returns the durations recorded so far.
func (d *Durations) Snapshot() stats.Durations {
	out := stats.Durations{Sum: time.Duration(d.sum.Load()), Buckets: make([]stats.Bucket, len(d.bounds))}
	for i, bound := range d.bounds {
		out.Count += d.counts[i].Load()
		out.Buckets[i] = stats.Bucket{AtMost: bound, Count: out.Count}
	}
	out.Count += d.counts[len(d.bounds)].Load()
	return out
}

// Package stats defines [Durations], a histogram of how long something took.
//
// Not promised: figures of different runs of a node do not add up. They start at 0 with the node.
package stats

import (
	"slices"
	"time"
)

// Durations is a histogram of durations. It is a value: Observe does not change a copy made by Clone. The zero
// value has no buckets and records only Count and Sum.
type Durations struct {
	Count int64
	Sum   time.Duration
	// Buckets are sorted by AtMost. Durations above the last bound are in Count and Sum only.
	Buckets []Bucket
}

// Bucket counts the durations of at most AtMost. It includes those of all smaller buckets.
type Bucket struct {
	AtMost time.Duration
	Count  int64
}

// NewDurations returns an empty histogram with the given bounds, which must be in increasing order.
func NewDurations(bounds ...time.Duration) Durations {
	d := Durations{Buckets: make([]Bucket, len(bounds))}
	for i, bound := range bounds {
		d.Buckets[i].AtMost = bound
	}
	return d
}

// Observe adds one duration. It is not safe for concurrent use.
func (d *Durations) Observe(took time.Duration) {
	d.Count++
	d.Sum += took
	for i := range d.Buckets {
		if took <= d.Buckets[i].AtMost {
			d.Buckets[i].Count++
		}
	}
}

// Clone returns a copy that Observe does not change.
func (d Durations) Clone() Durations {
	d.Buckets = slices.Clone(d.Buckets)
	return d
}

// Package stats has the form of figures that are more than a number: how long things took.
//
// What is not promised: that figures of two moments add up. They count since the node's start, and begin anew with it.
package stats

import (
	"slices"
	"time"
)

// Durations is a histogram. It is a value: a copy made by Clone does not change. The zero value has no buckets and
// counts nothing but Count and Sum.
type Durations struct {
	Count int64
	Sum   time.Duration
	// Buckets are by AtMost; what took longer than the last one is in Count and Sum alone.
	Buckets []Bucket
}

// Bucket is how many took AtMost so long; shorter ones are counted in too.
type Bucket struct {
	AtMost time.Duration
	Count  int64
}

// NewDurations is an empty histogram with these bounds, which must grow.
func NewDurations(bounds ...time.Duration) Durations {
	d := Durations{Buckets: make([]Bucket, len(bounds))}
	for i, bound := range bounds {
		d.Buckets[i].AtMost = bound
	}
	return d
}

// Observe counts one more. It is not safe for concurrent use.
func (d *Durations) Observe(took time.Duration) {
	d.Count++
	d.Sum += took
	for i := range d.Buckets {
		if took <= d.Buckets[i].AtMost {
			d.Buckets[i].Count++
		}
	}
}

// Clone is a copy that is not changed by Observe.
func (d Durations) Clone() Durations {
	d.Buckets = slices.Clone(d.Buckets)
	return d
}

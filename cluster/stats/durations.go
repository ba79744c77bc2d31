// Package stats defines [Durations], a histogram of how long something took.
//
// Not promised: figures of different runs of a node do not add up. They start at 0 with the node.
package stats

import "time"

// Durations is a histogram of durations. Its owner does not change it any more.
type Durations struct {
	Count int64         `json:"count"`
	Sum   time.Duration `json:"sum_ns"`
	// Buckets are sorted by AtMost. Durations above the last bound are in Count and Sum only.
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts the durations of at most AtMost. It includes those of all smaller buckets.
type Bucket struct {
	AtMost time.Duration `json:"at_most_ns"`
	Count  int64         `json:"count"`
}

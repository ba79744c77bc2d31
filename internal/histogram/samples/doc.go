// Package samples keeps a node's recent past: a [Ring] of samples, each computed from two readings of the node's
// counters. It decides nothing about time and starts no goroutine; package cluster takes the readings.
//
// Not promised: a sample covers [Every] only if the node could run when the reading was due. Sample.Seconds has the
// length of the interval.
package samples

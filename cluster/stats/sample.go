package stats

import "time"

// Sample holds the figures of one interval of a node's recent past. Nodes cut the intervals at the same times, by
// their own clocks, so samples of several nodes can be compared.
type Sample struct {
	Time    time.Time `json:"time"`    // the end of the interval
	Seconds float64   `json:"seconds"` // its length
	// RenewalSeconds is the mean duration of the renewals of the node's session, 0 without one. RenewalsFailed counts
	// those that failed.
	RenewalSeconds float64 `json:"renewal_seconds"`
	RenewalsFailed int64   `json:"renewals_failed"`
	// Failovers counts the leaders that the node saw elected after another one. LeaderlessSeconds is the time without a
	// leader before them.
	Failovers         int64   `json:"failovers"`
	LeaderlessSeconds float64 `json:"leaderless_seconds"`
	// Calls counts the calls of objects that ended on the node. Failed counts those of them that failed because of the
	// service, not of the caller, and those that were never started.
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"`
	// Queued counts the calls that had to wait for their turn. QueuedSeconds is the sum of their waits.
	Queued        int64   `json:"queued"`
	QueuedSeconds float64 `json:"queued_seconds"`
	// Lag is the number of events that wait for the processors which run on the node, at the end of the interval; -1 if
	// it is unknown.
	Lag int64 `json:"lag"`
}

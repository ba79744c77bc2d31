package samples

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

const (
	// Every is the interval of samples. Readings are due at its multiples since the zero time, so that the samples of
	// several nodes cover the same intervals.
	Every = 20 * time.Second
	// Limit limits the samples kept: those of an hour.
	Limit = 180
	// MaxBusy limits the shards that Busy returns.
	MaxBusy = 8
)

// Reading holds a node's counters at one instant.
type Reading struct {
	At             time.Time
	Renewals       stats.Durations
	RenewalsFailed int64
	Failovers      stats.Durations
	Queued         stats.Durations  // of all services
	Services       map[string]Calls // by name
	Turns          []int64          // by shard; nil if the node has no part in the shards
	Lag            int64            // -1 if it is unknown
}

// Calls counts calls.
type Calls struct{ Ended, Failed int64 }

// Rates holds the calls per second of one service.
type Rates struct{ Calls, Failed float64 }

// ShardRate holds the turns per second that begin in one shard.
type ShardRate struct {
	Shard     int
	PerSecond float64
}

// History keeps the samples of a node. The zero value is empty. It is not safe for concurrent use.
type History struct {
	ring   Ring[stats.Sample]
	before Reading // the last but one, for rates; the first one until there are two
	last   Reading
	begun  bool
}

// Add adds the sample between the last reading and r. The first reading begins the first interval. A second
// reading in an interval is left out. If the clock was set back, Add drops the samples that are in the future now, and
// r begins a new interval.
func (h *History) Add(r Reading) {
	switch order := slot(r.At).Compare(slot(h.last.At)); {
	case !h.begun || order < 0:
		past := h.ring.All()
		*h = History{ring: NewRing[stats.Sample](Limit), before: r, last: r, begun: true}
		for _, s := range past {
			if !s.Time.After(slot(r.At)) {
				h.ring.Add(s)
			}
		}
	case order > 0:
		h.ring.Add(Between(h.last, r))
		h.before, h.last = h.last, r
	}
}

// After returns the samples whose interval ended after a time, the oldest first.
func (h *History) After(at time.Time) []stats.Sample {
	return slices.DeleteFunc(h.ring.All(), func(s stats.Sample) bool { return !s.Time.After(at) })
}

// ServiceRates returns the rates of each service over the time from the last reading but one up to now.
func (h *History) ServiceRates(now Reading) map[string]Rates {
	rates, seconds := map[string]Rates{}, now.At.Sub(h.before.At).Seconds()
	if !h.begun || seconds <= 0 {
		return rates
	}
	for name, is := range now.Services {
		was := h.before.Services[name]
		rates[name] = Rates{Calls: float64(is.Ended-was.Ended) / seconds, Failed: float64(is.Failed-was.Failed) / seconds}
	}
	return rates
}

// Busy returns the shards in which most turns began from the last reading but one up to now, the busiest first.
func (h *History) Busy(now Reading) []ShardRate {
	seconds := now.At.Sub(h.before.At).Seconds()
	if !h.begun || seconds <= 0 || len(h.before.Turns) != len(now.Turns) {
		return nil
	}
	var busy []ShardRate
	for n, turns := range now.Turns {
		if begun := turns - h.before.Turns[n]; begun > 0 {
			busy = append(busy, ShardRate{n, float64(begun) / seconds})
		}
	}
	slices.SortFunc(busy, func(a, b ShardRate) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Shard, b.Shard))
	})
	return busy[:min(len(busy), MaxBusy)]
}

// slot returns the end of the interval that a reading closes.
func slot(at time.Time) time.Time { return at.Truncate(Every).UTC() }

// Between returns the sample between two readings of one node.
func Between(was, is Reading) stats.Sample {
	s := stats.Sample{Time: slot(is.At), Seconds: is.At.Sub(was.At).Seconds(), Lag: is.Lag,
		RenewalsFailed: is.RenewalsFailed - was.RenewalsFailed, Failovers: is.Failovers.Count - was.Failovers.Count,
		LeaderlessSeconds: (is.Failovers.Sum - was.Failovers.Sum).Seconds(), Queued: is.Queued.Count - was.Queued.Count,
		QueuedSeconds: (is.Queued.Sum - was.Queued.Sum).Seconds()}
	if renewed := is.Renewals.Count - was.Renewals.Count; renewed > 0 {
		s.RenewalSeconds = (is.Renewals.Sum - was.Renewals.Sum).Seconds() / float64(renewed)
	}
	for name, calls := range is.Services {
		s.Calls += calls.Ended - was.Services[name].Ended
		s.Failed += calls.Failed - was.Services[name].Failed
	}
	return s
}

// Merge returns the samples of a cluster from those of its nodes, the oldest first and at most Limit. Counts of calls
// and events add up. The renewals are the slowest node's. Every node counts the failovers, so the largest count stands
// for all.
func Merge(nodes [][]stats.Sample) []stats.Sample {
	byTime := map[time.Time]stats.Sample{}
	for _, samples := range nodes {
		for _, s := range samples {
			sum, known := byTime[s.Time]
			if !known {
				sum = stats.Sample{Time: s.Time, Lag: -1}
			}
			byTime[s.Time] = addSample(sum, s)
		}
	}
	all := make([]stats.Sample, 0, len(byTime))
	for _, s := range byTime {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stats.Sample) int { return a.Time.Compare(b.Time) })
	return all[max(0, len(all)-Limit):]
}

func addSample(sum, s stats.Sample) stats.Sample {
	sum.Seconds = max(sum.Seconds, s.Seconds)
	sum.RenewalSeconds = max(sum.RenewalSeconds, s.RenewalSeconds)
	sum.RenewalsFailed += s.RenewalsFailed
	if s.Failovers > sum.Failovers {
		sum.Failovers, sum.LeaderlessSeconds = s.Failovers, s.LeaderlessSeconds
	}
	sum.Calls += s.Calls
	sum.Failed += s.Failed
	sum.Queued += s.Queued
	sum.QueuedSeconds = FiniteSum(sum.QueuedSeconds, s.QueuedSeconds)
	if s.Lag >= 0 {
		sum.Lag = max(sum.Lag, 0) + s.Lag
	}
	return sum
}

// FiniteSum returns a+b, at most the largest number: JSON has no infinity.
func FiniteSum(a, b float64) float64 { return max(-math.MaxFloat64, min(a+b, math.MaxFloat64)) }

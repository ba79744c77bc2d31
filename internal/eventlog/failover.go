package eventlog

import (
	"maps"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
)

// failover measures how long nobody led between two leaders: from the first sign in etcd that the leader is gone,
// its accusation or the end of its key, until the next one is elected. What nobody could see yet, that a host is gone
// whose lease lasts, is not in it. The zero value is ready.
type failover struct {
	accused time.Time // the leader was accused, and has not refuted that
	since   time.Time // nobody leads; zero: somebody does, or nobody did yet
}

// look sees an event, and sets Seconds of one that elects a leader. leader is who led before it.
func (f failover) look(e *event.Event, leader election.Leader) failover {
	switch {
	case e.Type == event.NodeAccused && e.Node == leader.Address && f.accused.IsZero():
		f.accused = e.Time
	case e.Type == event.NodeRefuted && e.Node == leader.Address:
		f.accused = time.Time{}
	case e.Type == event.LeaderLost:
		if f.since = e.Time; !f.accused.IsZero() {
			f.since = f.accused
		}
		f.accused = time.Time{}
	case e.Type == event.LeaderElected:
		if !f.since.IsZero() {
			e.Seconds = e.Time.Sub(f.since).Seconds()
		}
		f = failover{}
	}
	return f
}

// Failovers counts the changes of leader that a node saw.
type Failovers struct {
	// Elected is how many leaders were elected.
	Elected int64
	// Lost is how many terms ended, by reason.
	Lost map[string]int64
	// Seconds is for how long nobody led, in total, and Buckets how many were over within so many seconds each: those
	// of [FailoverBuckets], not cumulated; the last one is for what took longer.
	Seconds float64
	Buckets [len(FailoverBuckets) + 1]int64
}

// FailoverBuckets are the upper bounds of Failovers.Buckets, in seconds.
var FailoverBuckets = [...]float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

func (f *Failovers) count(e event.Event) {
	if e.Type == event.LeaderLost {
		if f.Lost == nil {
			f.Lost = map[string]int64{}
		}
		f.Lost[e.Reason]++
		return
	}
	f.Elected++
	f.Seconds += e.Seconds
	i := 0
	for i < len(FailoverBuckets) && e.Seconds > FailoverBuckets[i] {
		i++
	}
	f.Buckets[i]++
}

func (f Failovers) clone() Failovers {
	f.Lost = maps.Clone(f.Lost)
	return f
}

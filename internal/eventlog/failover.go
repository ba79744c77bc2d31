package eventlog

import (
	"maps"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/histogram"
	"github.com/goverse/goverse/internal/state"
)

// failover measures how long the cluster has no leader between two leaders. The time runs from the first sign
// that the leader is gone (its silence, its accusation, or the end of its key) until the next one is elected.
// It does not include time that no node can observe: if a host is lost while crash detection is off, its lease
// still runs. The zero value is ready to use.
type failover struct {
	silent  time.Time // since when the leader has been silent; zero: it answers
	accused time.Time // when the leader was accused, if it has not refuted that
	since   time.Time // since when there is no leader; zero: there is one, or there was none yet
}

// onEvent updates the failover by an event. It sets Seconds in an event that ends the term of a silent leader, and
// in an event that elects a leader. leader is the leader before the event. silent records since when nodes have
// been silent.
func (f failover) onEvent(e *event.Event, leader state.Leader, silent silentSince) failover {
	switch {
	case e.Type == event.NodeSilent && e.Node == leader.Address:
		f.silent = silent[e.Node]
	case e.Type == event.NodeAnswering && e.Node == leader.Address:
		f.silent = time.Time{}
	case e.Type == event.NodeAccused && e.Node == leader.Address && f.accused.IsZero():
		f.accused = e.Time
	case e.Type == event.NodeRefuted && e.Node == leader.Address:
		f.accused = time.Time{}
	case e.Type == event.LeaderLost:
		if !f.silent.IsZero() {
			e.Seconds = e.Time.Sub(f.silent).Seconds()
		}
		f = failover{since: earliestTime(e.Time, f.accused, f.silent)}
	case e.Type == event.LeaderElected:
		if !f.since.IsZero() {
			e.Seconds = e.Time.Sub(f.since).Seconds()
		}
		f = failover{silent: silent[e.Node]}
	}
	return f
}

// earliestTime returns the earliest of the times, ignoring zero ones among others.
func earliestTime(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// Failovers counts the changes of leader that a node has observed.
type Failovers struct {
	// Elected holds, for each leader elected after another one, the time without a leader.
	Elected stats.Durations
	// Lost is the number of ended terms by reason.
	Lost map[string]int64
}

// failoverCounter counts changes of leader.
type failoverCounter struct {
	elected    *histogram.Durations
	lost       map[string]int64
	lostBefore bool // a leader was lost before
}

// failoverBounds are dense at the durations of a handover and of a crash, and extend to that of a lease.
var failoverBounds = []time.Duration{time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

func newFailoverCounter() failoverCounter {
	return failoverCounter{elected: histogram.NewDurations(failoverBounds...), lost: map[string]int64{}}
}

func (f *failoverCounter) countEvent(e event.Event) {
	switch e.Type {
	case event.LeaderLost:
		f.lost[e.Reason]++
		f.lostBefore = true
	case event.LeaderElected:
		if !f.lostBefore {
			return // the first leader that this node observes
		}
		f.elected.Observe(time.Duration(e.Seconds * float64(time.Second)))
	}
}

func (f *failoverCounter) read() Failovers {
	return Failovers{Elected: f.elected.Snapshot(), Lost: maps.Clone(f.lost)}
}

package eventlog

import (
	"maps"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/stats"
)

// failover measures how long nobody led between two leaders: from the first sign that the leader is gone, which is that
// it did not answer, its accusation, or the end of its key, until the next one is elected. What nobody could see, as
// that a host is gone whose lease lasts where crash detection is off, is not in it. The zero value is ready.
type failover struct {
	silent  time.Time // since when the leader has not answered; zero: it does
	accused time.Time // the leader was accused, and has not refuted that
	since   time.Time // nobody leads; zero: somebody does, or nobody did yet
}

// look sees an event, and sets Seconds of one that ends a term of a leader that did not answer before, and of one that
// elects a leader. leader is who led before it, silent since when nodes do not answer.
func (f failover) look(e *event.Event, leader election.Leader, silent silentSince) failover {
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
		f = failover{since: earliest(e.Time, f.accused, f.silent)}
	case e.Type == event.LeaderElected:
		if !f.since.IsZero() {
			e.Seconds = e.Time.Sub(f.since).Seconds()
		}
		f = failover{silent: silent[e.Node]}
	}
	return f
}

// earliest is the first of the times, those that are zero apart.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// Failovers are the changes of leader that a node saw.
type Failovers struct {
	// Elected is how many leaders were elected after another one, and for how long nobody led.
	Elected stats.Durations
	// Lost is how many terms ended, by reason.
	Lost map[string]int64

	after bool // a leader was lost
}

// failoverBounds are close together where a handover and a crash are, and reach as far as a lease.
var failoverBounds = []time.Duration{time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

func newFailovers() Failovers {
	return Failovers{Elected: stats.NewDurations(failoverBounds...), Lost: map[string]int64{}}
}

func (f *Failovers) count(e event.Event) {
	switch e.Type {
	case event.LeaderLost:
		f.Lost[e.Reason]++
		f.after = true
	case event.LeaderElected:
		if !f.after {
			return // the first that this node sees
		}
		f.Elected.Observe(time.Duration(e.Seconds * float64(time.Second)))
	}
}

func (f Failovers) clone() Failovers {
	return Failovers{Elected: f.Elected.Clone(), Lost: maps.Clone(f.Lost)}
}

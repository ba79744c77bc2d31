package eventlog

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
)

// leaderlessFor is how long nobody must lead for the cluster to be degraded. Between two leaders there is always a
// moment without one.
const leaderlessFor = time.Second

// leaderless is for how long a node has known of no leader. The zero value has not known of one yet.
type leaderless struct {
	began    bool      // there is something to measure
	since    time.Time // zero: somebody leads
	token    int64     // the last leader's
	degraded string    // the id of the event that says so, once it lasts; "" before
}

// silence is that the leader with that token had not answered since then when its term ended; zero: nothing is known.
type silence struct {
	token int64
	since time.Time
}

// began is when nobody led any more, by what one node sees: sooner, if the leader with that token was silent before.
func (s silence) began(token int64, seen time.Time) time.Time {
	if s.token == 0 || s.token != token {
		return seen
	}
	if seen.IsZero() {
		return s.since
	}
	return earliest(seen, s.since)
}

// verdict is what a look finds.
type verdict struct {
	events []event.Event
	// withdrawn is the id of an event that turned out to be about this node alone: the same leader leads on.
	withdrawn string
	// over is the id of the event that began what the one event here ends.
	over string
	// again is after which time to look again; 0: when something changes.
	again time.Duration
}

// look sees who leads, as far as the node may say. before is how the last leader was silent before its term ended: a
// leader that stands still leads in name alone. revision names a cluster that has had no leader yet.
func (l leaderless) look(leader election.Leader, before silence, revision int64, now time.Time) (leaderless, verdict) {
	if leader.Token == 0 {
		if !l.began || l.since.IsZero() {
			l.began, l.since = true, now
		}
		if l.degraded != "" {
			return l, verdict{}
		}
		l.since = before.began(l.token, l.since)
		if left := l.since.Add(leaderlessFor).Sub(now); left > 0 {
			return l, verdict{again: left}
		}
		l.degraded = l.id(revision)
		return l, verdict{events: []event.Event{l.event(revision)}}
	}
	was := l
	l = leaderless{began: true, token: leader.Token}
	found := verdict{over: was.degraded}
	switch {
	case was.degraded == "" && (was.token == leader.Token || before.token == 0 || before.token != was.token):
		return l, verdict{}
	case was.degraded == "":
		if was.since = before.began(was.token, was.since); now.Sub(was.since) < leaderlessFor {
			return l, verdict{}
		}
		found.events = []event.Event{was.event(revision)}
	case was.token == leader.Token:
		return l, verdict{withdrawn: was.degraded}
	}
	recovered := event.Event{ID: fmt.Sprintf("%s-%d", event.ClusterRecovered, leader.Token),
		Type: event.ClusterRecovered, Time: now, Node: leader.Address, Token: leader.Token, Revision: revision,
		Seconds: now.Sub(was.since).Seconds()}
	found.events = append(found.events, recovered)
	return l, found
}

// id is that of the event that says that nobody leads.
func (l leaderless) id(revision int64) string {
	if l.token == 0 {
		return fmt.Sprintf("%s-at-%d", event.ClusterDegraded, revision)
	}
	return fmt.Sprintf("%s-%d", event.ClusterDegraded, l.token)
}

func (l leaderless) event(revision int64) event.Event {
	return event.Event{ID: l.id(revision), Type: event.ClusterDegraded, Time: l.since, Token: l.token, Revision: revision}
}

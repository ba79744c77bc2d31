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

// look sees who leads, as far as the node may say. revision names a cluster that has had no leader yet.
func (l leaderless) look(leader election.Leader, revision int64, now time.Time) (leaderless, verdict) {
	if leader.Token == 0 {
		if !l.began || l.since.IsZero() {
			l.began, l.since = true, now
		}
		if l.degraded != "" {
			return l, verdict{}
		}
		if left := l.since.Add(leaderlessFor).Sub(now); left > 0 {
			return l, verdict{again: left}
		}
		l.degraded = fmt.Sprintf("%s-%d", event.ClusterDegraded, l.token)
		if l.token == 0 {
			l.degraded = fmt.Sprintf("%s-at-%d", event.ClusterDegraded, revision)
		}
		return l, verdict{events: []event.Event{{ID: l.degraded, Type: event.ClusterDegraded, Time: l.since,
			Token: l.token, Revision: revision}}}
	}
	was := l
	l = leaderless{began: true, token: leader.Token}
	switch {
	case was.degraded == "":
		return l, verdict{}
	case was.token == leader.Token:
		return l, verdict{withdrawn: was.degraded}
	}
	recovered := event.Event{ID: fmt.Sprintf("%s-%d", event.ClusterRecovered, leader.Token),
		Type: event.ClusterRecovered, Time: now, Node: leader.Address, Token: leader.Token, Revision: revision,
		Seconds: now.Sub(was.since).Seconds()}
	return l, verdict{over: was.degraded, events: []event.Event{recovered}}
}

package eventlog

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// leaderlessFor is the time without a leader after which the cluster is degraded. There is always a moment
// without one between two leaders.
const leaderlessFor = time.Second

// leaderless measures the time for which a node has known no leader. The zero value belongs to a node that has
// not known one yet.
type leaderless struct {
	began    bool      // the measurement has begun
	since    time.Time // zero: there is a leader
	token    int64     // token of the last leader
	degraded string    // id of the event that reports the state, once it lasts; "" before
}

// leaderSilence records that the leader with that token had been silent since then when its term ended. The zero
// value means that no silence is known.
type leaderSilence struct {
	token int64
	since time.Time
}

// leaderlessSince returns the time from which there was no leader, given the time seen at which this node saw that. It
// is earlier if the leader with that token was silent before.
func (s leaderSilence) leaderlessSince(token int64, seen time.Time) time.Time {
	if s.token == 0 || s.token != token {
		return seen
	}
	if seen.IsZero() {
		return s.since
	}
	return earliestTime(seen, s.since)
}

// leaderlessResult is the result of onLeader.
type leaderlessResult struct {
	events []event.Event
	// withdrawnID is the id of an event that turned out to concern this node alone: the same leader still leads.
	withdrawnID string
	// endedID is the id of the event about the beginning of the state that the event here ends.
	endedID string
	// again is the time after which to look again; 0: when something changes.
	again time.Duration
}

// onLeader updates the state by the present leader, as far as the node may report it. before describes the silence
// of the last leader before its term ended, because a leader that stands still leads in name only. revision is
// part of the event's id if the cluster has had no leader yet.
func (l leaderless) onLeader(leader leaderelection.Leader, before leaderSilence, revision int64,
	now time.Time) (leaderless,
	leaderlessResult) {
	if leader.Token == 0 {
		if !l.began || l.since.IsZero() {
			l.began, l.since = true, now
		}
		if l.degraded != "" {
			return l, leaderlessResult{}
		}
		l.since = before.leaderlessSince(l.token, l.since)
		if left := l.since.Add(leaderlessFor).Sub(now); left > 0 {
			return l, leaderlessResult{again: left}
		}
		l.degraded = l.degradedEventID(revision)
		return l, leaderlessResult{events: []event.Event{l.degradedEvent(revision)}}
	}
	was := l
	l = leaderless{began: true, token: leader.Token}
	found := leaderlessResult{endedID: was.degraded}
	switch {
	case was.degraded == "" && (was.token == leader.Token || before.token == 0 || before.token != was.token):
		return l, leaderlessResult{}
	case was.degraded == "":
		if was.since = before.leaderlessSince(was.token, was.since); now.Sub(was.since) < leaderlessFor {
			return l, leaderlessResult{}
		}
		found.events = []event.Event{was.degradedEvent(revision)}
	case was.token == leader.Token:
		return l, leaderlessResult{withdrawnID: was.degraded}
	}
	recovered := event.Event{ID: fmt.Sprintf("%s-%d", event.ClusterRecovered, leader.Token),
		Type: event.ClusterRecovered, Time: now, Node: leader.Address, Token: leader.Token, Revision: revision,
		Seconds: now.Sub(was.since).Seconds()}
	found.events = append(found.events, recovered)
	return l, found
}

// degradedEventID returns the id of the event that reports that there is no leader.
func (l leaderless) degradedEventID(revision int64) string {
	if l.token == 0 {
		return fmt.Sprintf("%s-at-%d", event.ClusterDegraded, revision)
	}
	return fmt.Sprintf("%s-%d", event.ClusterDegraded, l.token)
}

func (l leaderless) degradedEvent(revision int64) event.Event {
	return event.Event{ID: l.degradedEventID(revision), Type: event.ClusterDegraded, Time: l.since, Token: l.token,
		Revision: revision}
}

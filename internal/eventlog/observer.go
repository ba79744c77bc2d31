package eventlog

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/state"
)

// observer derives events from the observations of a node. Only Run's goroutine uses it.
type observer struct {
	log              *Log
	last             *state.Snapshot // the last one processed; nil before the first
	joined           bool            // this node has been among the members
	leaderless       leaderless
	recordedDegraded bool // this node recorded the last time without a leader
	failover         failover
	silent           silentSince
	accused          accusedSince
	lastSilence      leaderSilence // silence of the leader that lost its term last
	endedToken       int64         // token of the last own term with a reported end
}

// observe processes all changes. It returns the time after which to look again; 0: when something changes.
func (o *observer) observe(now time.Time) time.Duration {
	l := o.log
	if l.cfg.Mirror.Snapshot() == nil {
		return 0
	}
	if end := l.cfg.Election.LastEnd(); end != nil && end.Token != o.endedToken {
		o.endedToken = end.Token
		if o.last != nil {
			o.report(o.ownEndEvent(end, now), true)
		}
	}
	for _, s := range l.snapshots.takeAll(l.cfg.Mirror.Snapshot) {
		before := o.last
		o.last = s
		if before == nil {
			continue
		}
		if before.History != s.History {
			l.forgetHistory() // ids contain revisions, which belong to another history now
		}
		for _, e := range DeriveEvents(before, s) {
			e.Time = now
			o.silent.onEvent(&e)
			o.accused.onEvent(&e)
			o.failover = o.failover.onEvent(&e, before.Leader(), o.silent)
			if e.Type == event.LeaderLost && e.Seconds > 0 {
				o.lastSilence = leaderSilence{token: e.Token, since: o.failover.since}
			}
			// The recorder may be the node that is silent.
			o.report(e, e.Type == event.NodeSilent && e.Peer == l.cfg.Address)
		}
	}
	o.reportLostSessions(now)
	if o.joined = o.joined || o.last.Member(l.cfg.Address) != nil; !o.joined {
		return 0 // a node that is not a member yet has no need to know the leader
	}
	var found leaderlessResult
	o.leaderless, found = o.leaderless.onLeader(l.cfg.Election.Leader(), o.lastSilence, o.last.Revision, now)
	if found.withdrawnID != "" {
		l.withdrawEvent(found.withdrawnID)
	}
	for _, e := range found.events {
		o.reportDegraded(e, found.endedID)
	}
	return found.again
}

// reportDegraded reports that the cluster has been without a leader for long, or that there is a leader again, which
// ends the event with the id over. If this node reported the beginning as the recorder, it records both.
// Otherwise the present recorder does, because this node may have been cut off from a cluster with a leader.
func (o *observer) reportDegraded(e event.Event, over string) {
	records := recorderAddress(o.last) == o.log.cfg.Address
	if e.Type == event.ClusterDegraded {
		o.recordedDegraded = records && o.log.cfg.Valid()
	}
	o.report(e, o.recordedDegraded)
	if over != "" && !records && !o.recordedDegraded && o.log.writer != nil {
		o.log.writer.withdrawEvent(over)
		o.log.writer.withdrawEvent(e.ID)
	}
}

// ownEndEvent returns the event for the end of this node's own term, with the exact reason.
func (o *observer) ownEndEvent(end *leaderelection.TermOverError, now time.Time) event.Event {
	return event.Event{ID: fmt.Sprintf("%s-%d", event.LeaderLost, end.Token), Type: event.LeaderLost, Time: now,
		Node: o.log.cfg.Address, Token: end.Token, Revision: o.last.Revision, Reason: string(end.Reason)}
}

// reportLostSessions reports the sessions that were lost, once this node has a new one. Before that, the events could
// not be recorded, and the length of the outage is unknown.
func (o *observer) reportLostSessions(now time.Time) {
	l := o.log
	if !l.cfg.Valid() {
		return
	}
	l.mu.Lock()
	lost := l.lost
	l.lost = nil
	l.mu.Unlock()
	for _, s := range lost {
		o.report(event.Event{ID: fmt.Sprintf("%s-%x", event.SessionLost, s.id), Type: event.SessionLost, Time: s.at,
			Node: l.cfg.Address, Revision: o.last.Revision, Reason: s.reason, Seconds: now.Sub(s.at).Seconds()}, true)
	}
}

// report remembers an event, logs it, and passes it to the writer. own means that this node has the exact
// facts.
func (o *observer) report(e event.Event, own bool) {
	l := o.log
	known := l.rememberEvent(e, own)
	if l.writer != nil {
		l.writer.addPending(e, own, o.recordDelay(e, own))
	}
	if !known {
		LogLine(l.cfg.Logger, e, l.cfg.Address, len(o.last.RegisteredMembers()))
	}
}

// recordDelay returns the delay before the recorder records an event.
func (o *observer) recordDelay(e event.Event, own bool) time.Duration {
	if e.Type == event.LeaderLost && !own && o.last.Member(e.Node) != nil && !o.last.Lingers(o.last.Member(e.Node)) {
		return deputyDelay
	}
	return batchDelay
}

// rememberEvent adds an event to the recent ones and reports whether it was already there. An event of which this
// node has the exact facts replaces the derived one, but is never replaced by it.
func (l *Log) rememberEvent(e event.Event, own bool) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.recent) - 1; i >= 0; i-- {
		if l.recent[i].ID == e.ID {
			if own {
				l.recent[i] = e
			}
			return true
		}
	}
	if len(l.recent) == maxRecent {
		l.recent = append(l.recent[:0], l.recent[1:]...)
	}
	l.recent = append(l.recent, e)
	l.failovers.countEvent(e)
	return false
}

// forgetHistory drops the observations of another history of etcd.
func (l *Log) forgetHistory() {
	l.mu.Lock()
	l.recent = nil
	l.mu.Unlock()
	if l.writer != nil {
		l.writer.forgetDerived()
	}
}

// withdrawEvent forgets an event that concerned this node alone.
func (l *Log) withdrawEvent(id string) {
	l.mu.Lock()
	for i, e := range l.recent {
		if e.ID == id {
			l.recent = append(l.recent[:i:i], l.recent[i+1:]...)
			break
		}
	}
	l.mu.Unlock()
	if l.writer != nil {
		l.writer.withdrawEvent(id)
	}
}

package eventlog

import (
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
)

// silences finds the members that somebody watches in vain, and those that answer again. Which of several watchers is
// the first does not matter: the silence of one member is one event.
func silences(before, now *state.Snapshot, add adder) {
	if state.Same(before.Silences, now.Silences) {
		return
	}
	for i, x := range now.Silences {
		if i > 0 && now.Silences[i-1].Address == x.Address {
			continue
		}
		m := now.Member(x.Address)
		if m == nil || firstSilence(before, m) != nil {
			continue
		}
		if first := firstSilence(now, m); first != nil {
			add(first.CreateRevision, event.Event{Type: event.NodeSilent, Node: m.Address, Peer: watcherAddress(now, first),
				Seconds: first.Silent().Seconds()})
		}
	}
	for i, x := range before.Silences {
		if i > 0 && before.Silences[i-1].Address == x.Address {
			continue
		}
		m := now.Member(x.Address)
		if m == nil || now.Lingers(m) || m.Stopping || firstSilence(now, m) != nil {
			continue
		}
		if first := firstSilence(before, m); first != nil {
			add(first.CreateRevision, event.Event{Type: event.NodeAnswering, Node: m.Address,
				Seconds: first.Silent().Seconds()})
		}
	}
}

// firstSilence is what was said first of m's silence, nil if nobody says that.
func firstSilence(s *state.Snapshot, m *state.Member) (first *state.Silence) {
	for _, x := range s.SilencesOf(m) {
		if first == nil || x.CreateRevision < first.CreateRevision {
			first = x
		}
	}
	return first
}

// watcherAddress is that of the member that said so, "" if it is none any more.
func watcherAddress(s *state.Snapshot, x *state.Silence) string {
	for _, m := range s.Members {
		if m.InstanceID == x.Watcher {
			return m.Address
		}
	}
	return ""
}

// silentSince remembers since when nodes have been silent, by this node's clock: what a watcher has said last of it
// may be long past when they answer again. The zero value is ready.
type silentSince map[string]time.Time

// look notes when a silence began, and gives the event that ends it its length.
func (l *silentSince) look(e *event.Event) {
	if *l == nil {
		*l = silentSince{}
	}
	switch e.Type {
	case event.NodeSilent:
		(*l)[e.Node] = e.Time.Add(-time.Duration(e.Seconds * float64(time.Second)))
	case event.NodeAnswering:
		if since, ok := (*l)[e.Node]; ok {
			e.Seconds = max(e.Seconds, e.Time.Sub(since).Seconds())
		}
		delete(*l, e.Node)
	case event.NodeLost, event.NodeLeft, event.NodeRemoved, event.NodeJoined:
		delete(*l, e.Node)
	}
}

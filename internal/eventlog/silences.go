package eventlog

import (
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
)

// deriveSilences finds members that have become silent to a watcher, and those that answer again. The silence of one
// member is one event, whichever watcher reports it first.
func deriveSilences(before, now *state.Snapshot, add addFunc) {
	if state.SameSlice(before.Silences, now.Silences) {
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
				Seconds: first.SilentFor().Seconds()})
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
				Seconds: first.SilentFor().Seconds()})
		}
	}
}

// firstSilence returns the first mark of m's silence, nil if there is none.
func firstSilence(s *state.Snapshot, m *state.Member) (first *state.Silence) {
	for _, x := range s.SilencesOf(m) {
		if first == nil || x.CreateRevision < first.CreateRevision {
			first = x
		}
	}
	return first
}

// watcherAddress returns the address of the watcher that wrote the mark, "" if it is no longer a member.
func watcherAddress(s *state.Snapshot, x *state.Silence) string {
	for _, m := range s.Members {
		if m.InstanceID == x.Watcher {
			return m.Address
		}
	}
	return ""
}

// silentSince records since when nodes have been silent, by this node's clock: when a node answers again, its
// last mark may be long out of date. The zero value is ready to use.
type silentSince map[string]time.Time

// onEvent records the beginning of a silence, and sets the length in the event that ends it.
func (l *silentSince) onEvent(e *event.Event) {
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

package eventlog

import (
	"cmp"
	"fmt"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/state"
)

// mayHoldEvents reports whether DeriveEvents may find an event between the two snapshots, or whether the reason of the
// next event changed. Every node calls it at every change of the cluster, so it only compares the identity of
// the lists, which are never modified.
func mayHoldEvents(before, now *state.Snapshot) bool {
	return state.MembersChanged(before, now) ||
		!state.SameSlice(before.Accusations, now.Accusations) || !state.SameSlice(before.Silences, now.Silences) ||
		before.ShardMap != now.ShardMap || before.Acting != now.Acting || before.Request != now.Request ||
		before.Leader() != now.Leader()
}

// DeriveEvents returns the events between two snapshots of one history, in an order in which they can be reported.
// The events have no time, and their ids are the same on every node. For snapshots of two histories it returns
// none: etcd was restored or replaced, and the events in between are unknown.
func DeriveEvents(before, now *state.Snapshot) []event.Event {
	if before.History != now.History {
		return nil
	}
	var out []event.Event
	add := func(id int64, e event.Event) {
		e.ID, e.Revision = fmt.Sprintf("%s-%d%s", e.Type, id, e.ID), now.Revision
		out = append(out, e)
	}
	deriveAccusations(before, now, add)
	deriveSilences(before, now, add)
	deriveMembers(before, now, add)
	deriveLeaders(before, now, add)
	deriveShards(before, now, add)
	deriveFormat(before, now, add)
	return out
}

type addFunc func(id int64, e event.Event)

func deriveAccusations(before, now *state.Snapshot, add addFunc) {
	if state.SameSlice(before.Accusations, now.Accusations) {
		return
	}
	for _, a := range now.Accusations {
		m := now.Member(a.Address)
		if m == nil || m.Incarnation != a.Incarnation || before.AccusationStands(a.Address, a.Accuser, a.ModRevision) {
			continue
		}
		add(a.ModRevision, event.Event{Type: event.NodeAccused, Node: a.Address, Peer: now.AccuserAddress(a),
			Reason: a.Evidence})
	}
	refuted := map[string]bool{} // one refutation answers all accusers
	for _, a := range before.Accusations {
		m := now.Member(a.Address)
		if m == nil || m.Incarnation != a.Incarnation || now.Lingers(m) || m.Stopping || refuted[a.Address] ||
			now.AccusationStands(a.Address, a.Accuser, a.ModRevision) {
			continue
		}
		refuted[a.Address] = true
		add(a.ModRevision, event.Event{Type: event.NodeRefuted, Node: a.Address, Peer: before.AccuserAddress(a)})
	}
}

func deriveMembers(before, now *state.Snapshot, add addFunc) {
	if !state.MembersChanged(before, now) {
		return
	}
	diffMembers(before.RegisteredMembers(), now.RegisteredMembers(), func(was, is *state.Member) {
		switch {
		case was == nil:
			add(is.Incarnation, event.Event{Type: event.NodeJoined, Node: is.Address})
		case is == nil:
			add(was.Incarnation, departureEvent(before, now, was))
		case was.Draining != is.Draining && !is.Stopping:
			e := event.Event{Type: event.DrainEnded, Node: is.Address}
			if is.Draining {
				e.Type = event.DrainStarted
			}
			add(is.ModRevision, e)
		}
	})
}

// departureEvent returns the event for a member that is no longer registered. Its type and reason follow from the
// member's last known state.
func departureEvent(before, now *state.Snapshot, was *state.Member) event.Event {
	e := event.Event{Type: event.NodeLost, Node: was.Address}
	if a := state.RemovingAccusation(before, now, was); was.Stopping {
		e.Type = event.NodeLeft
	} else if a != nil {
		e.Type, e.Peer, e.Reason = event.NodeRemoved, before.AccuserAddress(a), a.Evidence
	}
	return e
}

func deriveLeaders(before, now *state.Snapshot, add addFunc) {
	was, is := before.Leader(), now.Leader()
	if was.Token != is.Token {
		if was.Token != 0 {
			add(was.Token, event.Event{Type: event.LeaderLost, Node: was.Address, Token: was.Token,
				Reason: whyLost(before, now, was)})
		}
		if is.Token == 0 {
			add(was.Token, event.Event{Type: event.ElectionStarted, Token: was.Token})
		}
	}
	if was, is := before.Acting, now.Acting; was != nil && (is == nil || is.CreateRevision != was.CreateRevision) {
		add(was.CreateRevision, event.Event{Type: event.FallbackLeft, Node: was.Address, Token: was.CreateRevision})
	}
	if was, is := before.Acting, now.Acting; is != nil && (was == nil || is.CreateRevision != was.CreateRevision) {
		add(is.CreateRevision, event.Event{Type: event.FallbackEntered, Node: is.Address, Token: is.CreateRevision})
	}
	if was.Token != is.Token && is.Token != 0 {
		add(is.Token, event.Event{Type: event.LeaderElected, Node: is.Address, Token: is.Token})
	}
}

// whyLost infers, from the snapshots alone, why a term ended. The leader itself knows the exact reason and
// reports it if it still can.
func whyLost(before, now *state.Snapshot, was state.Leader) string {
	m := before.Member(was.Address)
	if m == nil || !was.Member {
		return "" // an outside candidate
	}
	next := now.Member(was.Address)
	switch {
	case m.Stopping || next != nil && next.Incarnation == m.Incarnation && next.Stopping:
		return string(leaderelection.ReasonStopped)
	case next == nil || next.Incarnation != m.Incarnation:
		switch a := state.RemovingAccusation(before, now, m); {
		case a != nil && a.Removed:
			return event.ReasonSilent
		case a != nil:
			return event.ReasonRemoved
		}
		return string(leaderelection.ReasonSessionLost)
	case was.Fallback:
		return string(leaderelection.ReasonSuperseded)
	case before.Request != nil && before.Request.Token == was.Token:
		return string(leaderelection.ReasonRequested)
	}
	return string(leaderelection.ReasonResigned)
}

func deriveShards(before, now *state.Snapshot, add addFunc) {
	was, is := before.ShardMap, now.ShardMap
	if was == is || is == nil || is.Map == nil || was != nil && was.ModRevision == is.ModRevision {
		return
	}
	e := event.Event{Type: event.ShardsRebalanced, Generation: is.Generation()}
	for shard := range is.Shards() {
		owner, _ := is.Owner(shard)
		if was == nil || was.Map == nil || was.Shards() <= shard {
			e.Moved++
			continue
		}
		if former, _ := was.Owner(shard); former != owner {
			e.Moved++
		}
	}
	if was == nil || was.Map == nil {
		e.Reason = event.ReasonFirst
	}
	if e.Moved > 0 {
		add(is.ModRevision, e)
	}
}

// deriveFormat adds an event if the members that came or left change the format that the cluster may use. Its id has
// both the member that decides, or that did if the format is newer now, and the format.
func deriveFormat(before, now *state.Snapshot, add addFunc) {
	if !state.MembersChanged(before, now) {
		return
	}
	was, is := before.Format(), now.Format()
	if was.DecidedBy == nil || is.DecidedBy == nil || was.Format == is.Format {
		return
	}
	cause := is.DecidedBy
	if is.Format > was.Format {
		cause = was.DecidedBy
	}
	add(cause.Incarnation, event.Event{ID: fmt.Sprintf("-%d", is.Format), Type: event.FormatChanged,
		Node: is.DecidedBy.Address, ClusterFormat: is.Format})
}

// diffMembers calls differs for each member that is in only one of the lists (the other argument is then nil), or has
// different records in them. Both lists are sorted by address. A new incarnation at an address is another
// member.
func diffMembers(before, now []*state.Member, differs func(was, is *state.Member)) {
	for len(before) > 0 || len(now) > 0 {
		order := 0
		switch {
		case len(now) == 0:
			order = -1
		case len(before) == 0:
			order = 1
		default:
			order = cmp.Compare(before[0].Address, now[0].Address)
		}
		switch {
		case order < 0:
			differs(before[0], nil)
		case order > 0:
			differs(nil, now[0])
		case before[0].Incarnation != now[0].Incarnation:
			differs(before[0], nil)
			differs(nil, now[0])
		case before[0] != now[0]:
			differs(before[0], now[0])
		}
		if order <= 0 {
			before = before[1:]
		}
		if order >= 0 {
			now = now[1:]
		}
	}
}

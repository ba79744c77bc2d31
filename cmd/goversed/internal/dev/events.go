package dev

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// eventKind is the kind of an event, as derived from two snapshots.
type eventKind int

const (
	memberJoined eventKind = iota + 1
	memberStopping
	memberLeft
	memberGone
	accusationRefuted
	leaderElected
	leaderHandedOver
	leaderLost
	shardsAssigned // shards were assigned by a new map
	shardsServed   // all shards are served, and were not before
)

// event is a change between two snapshots.
type event struct {
	kind    eventKind
	address string // of the node concerned
	token   int64  // set for leaderElected and leaderHandedOver
	acting  bool   // in fallback
	outside bool   // the leader is not a member, but another program in the same election
	shards  int    // set for shardsServed: the number of shards
	elapsed string // set for leaderElected and shardsServed: the time the loop measured, "" if none
	reason  string
}

// describe describes the event in words.
func (h event) describe() string {
	name := h.address
	if h.outside {
		name += " (another program)"
	}
	verb := "leads"
	if h.acting {
		verb = "leads in fallback"
	}
	switch h.kind {
	case memberJoined:
		return name + " joined"
	case memberStopping:
		return name + " is stopping"
	case memberLeft:
		return name + " left"
	case memberGone:
		return "a node is gone: " + h.reason
	case accusationRefuted:
		return name + " showed that it lives: an accusation against it is void"
	case leaderLost:
		return "no leader: " + h.reason
	case shardsAssigned:
		return h.reason
	case shardsServed:
		return strings.TrimSuffix(fmt.Sprintf("all %d shards are served, %s", h.shards, h.elapsed), ", ")
	}
	line := fmt.Sprintf("%s %s (token %d)", name, verb, h.token)
	if h.elapsed != "" {
		line += ", " + h.elapsed
	}
	if h.kind == leaderHandedOver {
		line += ", handed over"
	}
	if h.reason != "" {
		line += ": " + h.reason
	}
	return line
}

// diffSnapshots returns the events between two snapshots, in an order in which they can have happened. Before is
// nil for the first snapshot.
func diffSnapshots(before, after *state.Snapshot) []event {
	if before == nil {
		before = &state.Snapshot{Keys: after.Keys}
	}
	var out []event
	ledBefore := before.Leader()
	for _, m := range before.Members {
		now := after.Member(m.Address)
		switch {
		case now == nil || now.Incarnation != m.Incarnation:
			if m.Stopping {
				out = append(out, event{kind: memberLeft, address: m.Address})
			} else if m.Lease != ledBefore.Lease || !ledBefore.Member { // a leader's end is reported by leaderChange
				out = append(out, event{kind: memberGone, address: m.Address, reason: removalReason(before, after, m)})
			}
		case now.Stopping && !m.Stopping:
			out = append(out, event{kind: memberStopping, address: m.Address})
		case findAccusation(before, m) != nil && findAccusation(after, m) == nil:
			out = append(out, event{kind: accusationRefuted, address: m.Address})
		}
	}
	if h, ok := leaderChange(before, after); ok {
		out = append(out, h)
	}
	for _, m := range after.Members {
		if was := before.Member(m.Address); was == nil || was.Incarnation != m.Incarnation {
			out = append(out, event{kind: memberJoined, address: m.Address})
		}
	}
	return append(out, shardChanges(before, after)...)
}

func leaderChange(before, after *state.Snapshot) (event, bool) {
	was, is := before.Leader(), after.Leader()
	if was.Token == is.Token {
		return event{}, false
	}
	h := event{kind: leaderElected, address: is.Address, token: is.Token, acting: is.Fallback,
		outside: is.Address != "" && !is.Member}
	voluntary := false
	if was.Address != "" {
		h.reason, voluntary = termEndReason(before, after, was)
	}
	switch {
	case is.Address == "":
		h.kind, h.address = leaderLost, was.Address
	case voluntary:
		h.kind = leaderHandedOver
	}
	return h, true
}

// termEndReason returns the reason why a term ended, and reports whether its leader gave way and still lives.
func termEndReason(before, after *state.Snapshot, was state.Leader) (why string, voluntary bool) {
	m := before.Member(was.Address)
	if m == nil || m.Lease != was.Lease {
		return was.Address + "'s key is gone", false
	}
	now := after.Member(m.Address)
	lives := now != nil && now.Incarnation == m.Incarnation
	switch {
	case m.Stopping || (lives && now.Stopping):
		return m.Address + " is stopping", true
	case lives && before.Request != nil:
		return m.Address + " was asked to", true
	case lives:
		return m.Address + " gave way", true
	}
	return removalReason(before, after, m), false
}

// removalReason returns the reason why the keys of a member that sent no goodbye were deleted.
func removalReason(before, after *state.Snapshot, m *state.Member) string {
	a := state.RemovingAccusation(before, after, m)
	if a == nil {
		return fmt.Sprintf("the lease of %s ended", m.Address)
	}
	return fmt.Sprintf("%s was removed by %s", m.Address,
		cmp.Or(after.AccuserAddress(a), before.AccuserAddress(a), "its replacement"))
}

// findAccusation returns the accusation against this incarnation, or nil.
func findAccusation(s *state.Snapshot, m *state.Member) *state.Accusation {
	for _, a := range s.Accusations {
		if a.Address == m.Address && a.Incarnation == m.Incarnation {
			return a
		}
	}
	return nil
}

package dev

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
)

// what is the kind of an event, as derived from two snapshots.
type what int

const (
	joined what = iota + 1
	stopping
	left
	gone
	refuted
	leads
	handedOver
	noLeader
	dealt  // shards were assigned by a new map
	served // all shards are served, and were not before
)

// event is a change between two snapshots.
type event struct {
	what    what
	address string // of the node concerned
	token   int64  // set for leads and handedOver
	mode    election.Mode
	outside bool   // the leader is not a member, but another program in the same election
	shards  int    // set for served: the number of shards
	when    string // set for leads and served: the time the loop measured, "" if none
	why     string
}

// line describes the event in words.
func (h event) line() string {
	name := h.address
	if h.outside {
		name += " (another program)"
	}
	verb := "leads"
	if h.mode == election.ModeFallback {
		verb = "leads in fallback"
	}
	switch h.what {
	case joined:
		return name + " joined"
	case stopping:
		return name + " is stopping"
	case left:
		return name + " left"
	case gone:
		return "a node is gone: " + h.why
	case refuted:
		return name + " showed that it lives: an accusation against it is void"
	case noLeader:
		return "no leader: " + h.why
	case dealt:
		return h.why
	case served:
		return strings.TrimSuffix(fmt.Sprintf("all %d shards are served, %s", h.shards, h.when), ", ")
	}
	line := fmt.Sprintf("%s %s (token %d)", name, verb, h.token)
	if h.when != "" {
		line += ", " + h.when
	}
	if h.what == handedOver {
		line += ", handed over"
	}
	if h.why != "" {
		line += ": " + h.why
	}
	return line
}

// differences returns the events between two snapshots, in an order in which they can have happened. Before is
// nil for the first snapshot.
func differences(before, after *state.Snapshot) []event {
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
				out = append(out, event{what: left, address: m.Address})
			} else if m.Lease != ledBefore.Lease || !ledBefore.Member { // a leader's end is reported by leaderChange
				out = append(out, event{what: gone, address: m.Address, why: whyGone(before, after, m)})
			}
		case now.Stopping && !m.Stopping:
			out = append(out, event{what: stopping, address: m.Address})
		case accused(before, m) != nil && accused(after, m) == nil:
			out = append(out, event{what: refuted, address: m.Address})
		}
	}
	if h, ok := leaderChange(before, after); ok {
		out = append(out, h)
	}
	for _, m := range after.Members {
		if was := before.Member(m.Address); was == nil || was.Incarnation != m.Incarnation {
			out = append(out, event{what: joined, address: m.Address})
		}
	}
	return append(out, shardChanges(before, after)...)
}

func leaderChange(before, after *state.Snapshot) (event, bool) {
	was, is := before.Leader(), after.Leader()
	if was.Token == is.Token {
		return event{}, false
	}
	h := event{what: leads, address: is.Address, token: is.Token, mode: is.Mode,
		outside: is.Address != "" && !is.Member}
	voluntary := false
	if was.Address != "" {
		h.why, voluntary = whyEnded(before, after, was)
	}
	switch {
	case is.Address == "":
		h.what, h.address = noLeader, was.Address
	case voluntary:
		h.what = handedOver
	}
	return h, true
}

// whyEnded returns the reason why a term ended, and reports whether its leader gave way and still lives.
func whyEnded(before, after *state.Snapshot, was election.Leader) (why string, voluntary bool) {
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
	return whyGone(before, after, m), false
}

// whyGone returns the reason why the keys of a member that sent no goodbye were deleted.
func whyGone(before, after *state.Snapshot, m *state.Member) string {
	a := remover(before, after, m)
	if a == nil {
		return fmt.Sprintf("the lease of %s ended", m.Address)
	}
	return fmt.Sprintf("%s was removed by %s", m.Address,
		cmp.Or(after.AccuserAddress(a), before.AccuserAddress(a), "its replacement"))
}

// accused returns the accusation against this incarnation, or nil.
func accused(s *state.Snapshot, m *state.Member) *state.Accusation {
	for _, a := range s.Accusations {
		if a.Address == m.Address && a.Incarnation == m.Incarnation {
			return a
		}
	}
	return nil
}

// remover returns the accusation by which m was removed, or nil if there was none. Of several, it is the one
// that was deleted together with m.
func remover(before, after *state.Snapshot, m *state.Member) *state.Accusation {
	for _, a := range before.Accusations {
		still := slices.ContainsFunc(after.Accusations, func(b *state.Accusation) bool {
			return b.Address == a.Address && b.Accuser == a.Accuser && b.ModRevision == a.ModRevision
		})
		if a.Address == m.Address && a.Incarnation == m.Incarnation && !still {
			return a
		}
	}
	return accused(before, m)
}

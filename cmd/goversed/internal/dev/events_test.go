package dev

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// newMember and candidate use the incarnation as the lease, too.
func newMember(address string, incarnation int64) *state.Member {
	return &state.Member{Address: address, Incarnation: incarnation, Record: state.Record{InstanceID: "id-" +
		address, Lease: incarnation}}
}

func newCandidate(address string, lease, revision int64) *state.Candidate {
	return &state.Candidate{Address: address, KeyLease: lease, Lease: lease, CreateRevision: revision}
}

func stoppingMember(m *state.Member) *state.Member { m.Draining, m.Stopping = true, true; return m }

func newAccusation(address, accuser string, incarnation int64) *state.Accusation {
	return &state.Accusation{Address: address, Accuser: accuser,
		AccusationRecord: state.AccusationRecord{Incarnation: incarnation}}
}

type (
	memberList    = []*state.Member
	candidateList = []*state.Candidate
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	two := &state.Snapshot{Members: memberList{newMember("a", 1), newMember("b", 2)},
		Queue: candidateList{newCandidate("a", 1, 11),
			newCandidate("b", 2, 12)}}
	bLeads := &state.Snapshot{Members: memberList{newMember("b", 2)}, Queue: candidateList{newCandidate("b", 2, 12)}}
	for name, tc := range map[string]struct {
		before, after *state.Snapshot
		want          []string
	}{
		"nothing before": {nil, two, []string{"a leads (token 11)", "a joined", "b joined"}},
		"nothing new":    {two, two, nil},
		"the lease ran out": {two, bLeads,
			[]string{"b leads (token 12): the lease of a ended"}},
		"removed by a replacement": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("a", "new",
				1)}},
			bLeads, []string{"b leads (token 12): a was removed by its replacement"}},
		"a replacement there already": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("a", "id-a",
				1)}},
			&state.Snapshot{Members: memberList{newMember("a", 15), newMember("b", 2)}, Queue: bLeads.Queue},
			[]string{"b leads (token 12): a was removed by its replacement", "a joined"}},
		"removed by another member": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("a", "id-b",
				1)}},
			bLeads, []string{"b leads (token 12): a was removed by b"}},
		"removed by one of two who accused it": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("a", "new",
				1),
				newAccusation("a", "id-b", 1)}},
			&state.Snapshot{Members: bLeads.Members, Queue: bLeads.Queue,
				Accusations: []*state.Accusation{newAccusation("a", "new", 1)}},
			[]string{"b leads (token 12): a was removed by b"}},
		"an accusation of an older incarnation": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("a", "id-b",
				99)}},
			bLeads, []string{"b leads (token 12): the lease of a ended"}},
		"refuted": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Accusations: []*state.Accusation{newAccusation("b", "x",
				2)}},
			two, []string{"b showed that it lives: an accusation against it is void"}},
		"gave way": {two,
			&state.Snapshot{Members: two.Members, Queue: candidateList{newCandidate("b", 2, 12), newCandidate("a", 1, 13)}},
			[]string{"b leads (token 12), handed over: a gave way"}},
		"asked to": {
			&state.Snapshot{Members: two.Members, Queue: two.Queue, Request: &state.Request{}},
			&state.Snapshot{Members: two.Members, Queue: candidateList{newCandidate("b", 2, 12), newCandidate("a", 1, 13)}},
			[]string{"b leads (token 12), handed over: a was asked to"}},
		"is stopping": {two,
			&state.Snapshot{Members: memberList{stoppingMember(newMember("a", 1)), newMember("b", 2)}, Queue: two.Queue},
			[]string{"a is stopping"}},
		"stopped": {
			&state.Snapshot{Members: memberList{stoppingMember(newMember("a", 1)), newMember("b", 2)}, Queue: two.Queue},
			bLeads, []string{"a left", "b leads (token 12), handed over: a is stopping"}},
		"the last one stopped": {
			&state.Snapshot{Members: memberList{stoppingMember(newMember("b", 2))}, Queue: bLeads.Queue},
			&state.Snapshot{}, []string{"b left", "no leader: b is stopping"}},
		"a follower is gone": {two,
			&state.Snapshot{Members: memberList{newMember("a", 1)}, Queue: candidateList{newCandidate("a", 1, 11)}},
			[]string{"a node is gone: the lease of b ended"}},
		"leads again": {two,
			&state.Snapshot{Members: memberList{newMember("a", 1)}, Queue: candidateList{newCandidate("a", 1, 20)}},
			[]string{"a node is gone: the lease of b ended", "a leads (token 20), handed over: a gave way"}},
		"another program": {&state.Snapshot{},
			&state.Snapshot{Queue: candidateList{newCandidate("x", 7, 30)}},
			[]string{"x (another program) leads (token 30)"}},
		"another program ended": {&state.Snapshot{Members: bLeads.Members, Queue: candidateList{newCandidate("x", 7, 9),
			newCandidate("b", 2, 12)}},
			bLeads, []string{"b leads (token 12): x's key is gone"}},
		"fallback": {&state.Snapshot{Members: bLeads.Members},
			&state.Snapshot{Members: bLeads.Members, Acting: &state.Acting{Address: "b", Lease: 2, CreateRevision: 40}},
			[]string{"b leads in fallback (token 40)"}},
	} {
		var got []string
		for _, h := range diffSnapshots(tc.before, tc.after) {
			got = append(got, h.describe())
			require.False(t, strings.ContainsAny(h.describe(), "\n"), name)
		}
		require.Equal(t, tc.want, got, name)
	}
}

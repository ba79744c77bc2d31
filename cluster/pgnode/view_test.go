package pgnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
)

// What a node does follows from its view.
func TestChores(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	led := []Candidate{{Owner: "a", Session: 1, Token: 5}}
	alive := []Row{{ID: "a", Alive: true, Session: 1, Created: *ago(time.Hour)}, {ID: "b", Alive: true, Session: 2,
		Created: *ago(time.Minute)}}
	gone := []Row{alive[0], {ID: "b", Session: 2, Created: *ago(time.Minute)}}
	was := func(renewed time.Duration, ended *time.Time) Election {
		return Election{Lease: &Lease{Leader: "a", Term: 5, Renewed: *ago(renewed), Ended: ended}}
	}
	remove, begin, leaderless := []choreKind{choreRemove}, []choreKind{choreBeginTerm}, []choreKind{choreLeaderless}
	for name, c := range map[string]struct {
		nodes []Row
		e     Election
		own   int64
		noted int64
		want  []choreKind
	}{
		"all is well":               {nodes: alive, e: Election{Queue: led, Lease: was(0, nil).Lease}},
		"a node is lost":            {nodes: gone, e: Election{Queue: led}, want: remove},
		"own term is new":           {nodes: alive, own: 5, want: begin},
		"own term is recorded":      {nodes: alive, e: was(0, nil), own: 5},
		"own term follows another":  {nodes: alive, e: was(0, nil), own: 6, want: begin},
		"no leader for a moment":    {nodes: alive, e: was(time.Hour, ago(time.Second/2)), noted: -1},
		"no leader for a second":    {nodes: alive, e: was(time.Hour, ago(time.Second)), noted: -1, want: leaderless},
		"that was recorded":         {nodes: alive, e: was(time.Hour, ago(time.Second)), noted: 5},
		"the leader vanished":       {nodes: alive, e: was(2*time.Second, nil), noted: 4, want: leaderless},
		"never a leader":            {nodes: alive, noted: -1, want: leaderless},
		"only candidates that wait": {nodes: alive, e: Election{Queue: []Candidate{{}}}, noted: -1, want: leaderless},
	} {
		var own *termRecord
		if c.own != 0 {
			own = &termRecord{token: c.own}
		}
		c.e.Name = "leader"
		v := &view{State: State{ReadAt: now, Nodes: c.nodes, Elections: []Election{{Name: "aaa"}, c.e}}, incarnation: 1}
		var kinds []choreKind
		for _, due := range decideChores(v, "a", "leader", own, c.noted) {
			kinds = append(kinds, due.kind)
		}
		require.Equal(t, c.want, kinds, name)
	}
	v := &view{State: State{ReadAt: now, Nodes: gone}}
	require.Empty(t, decideChores(v, "b", "leader", nil, -1), "a node does not remove itself, and one that is not "+
		"registered judges nothing")
}

// A node that sees many lost ones at once still reports its own term.
func TestChoresAreBounded(t *testing.T) {
	v := &view{State: State{Nodes: make([]Row, 10*maxRemovals)}, incarnation: 1}
	chores := decideChores(v, "a", "leader", &termRecord{token: 7}, -1)
	require.Len(t, chores, maxRemovals+1)
	require.Equal(t, choreBeginTerm, chores[maxRemovals].kind)
}

// A node that has just stopped to lead does not show its own former claim as leading.
func TestTable(t *testing.T) {
	v := &view{State: State{Seq: 9, Nodes: []Row{{ID: "a", Alive: true, Session: 1}, {ID: "b", Alive: true, Session: 2},
		{ID: "c", Session: 3}, {ID: "d", Alive: true, Session: 4, State: cluster.MemberObserver}},
		Elections: []Election{{Name: "leader", Queue: []Candidate{{Session: 1, Token: 7}, {Session: 2}}}}}}
	states := func(own string, part cluster.MemberState) (all []cluster.MemberState) {
		for _, m := range v.table("leader", own, part).Members {
			all = append(all, m.State)
		}
		return all
	}
	const leader, candidate, observer = cluster.MemberLeader, cluster.MemberCandidate, cluster.MemberObserver
	require.Equal(t, []cluster.MemberState{leader, candidate, observer}, states("d", observer))
	require.Equal(t, []cluster.MemberState{candidate, candidate, observer}, states("a", candidate))
	require.Equal(t, []cluster.MemberState{candidate, leader, observer}, states("b", leader))
	require.EqualValues(t, 9, v.table("leader", "a", leader).Revision)
	require.Equal(t, 2, v.table("leader", "a", leader).Members[1].Place)
}

// The ring answers if it has all events after a Seq, and does not guess otherwise.
func TestRing(t *testing.T) {
	var r ring
	_, there := r.after(0)
	require.False(t, there)
	r.add(nil, 0)
	found, there := r.after(0)
	require.True(t, there && len(found) == 0, "an empty log")
	for seq := range int64(maxRecent + 100) {
		r.add([]event.Event{{Seq: seq + 1}}, seq+1)
	}
	require.Len(t, r.events, maxRecent)
	_, there = r.after(99)
	require.False(t, there, "event 100 is forgotten")
	found, there = r.after(100)
	require.True(t, there)
	require.Len(t, found, eventsPage)
	require.EqualValues(t, 101, found[0].Seq)
	found, there = r.after(maxRecent + 100)
	require.True(t, there && len(found) == 0)
	_, there = r.after(maxRecent + 101)
	require.False(t, there, "the log may be another one")
}

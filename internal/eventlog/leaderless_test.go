package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/state"
)

func TestLeaderless(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b, nobody := leaderelection.Leader{Address: "a:1", Token: 1}, leaderelection.Leader{Address: "b:1", Token: 2},
		leaderelection.Leader{}
	var l leaderless
	var before leaderSilence
	look := func(leader leaderelection.Leader, after time.Duration) leaderlessResult {
		now = now.Add(after)
		var v leaderlessResult
		l, v = l.onLeader(leader, before, 7, now)
		return v
	}
	require.Equal(t, leaderlessFor, look(nobody, 0).again)
	require.Equal(t, leaderlessResult{}, look(a, leaderlessFor-1), "the first leader, soon enough")
	require.Equal(t, leaderlessFor, look(nobody, time.Hour).again)
	require.Equal(t, leaderlessFor/2, look(nobody, leaderlessFor/2).again)
	require.Equal(t, leaderlessResult{}, look(b, leaderlessFor/4), "between two leaders there is always a moment")

	look(nobody, time.Hour)
	began := now
	degraded := look(nobody, leaderlessFor).events
	require.Equal(t, []event.Event{{ID: "cluster_degraded-2", Type: event.ClusterDegraded, Time: began, Token: 2,
		Revision: 7}}, degraded)
	require.Equal(t, leaderlessResult{}, look(nobody, time.Hour), "it is said once")
	require.Equal(t, leaderlessResult{withdrawnID: "cluster_degraded-2"}, look(b, 0), "b leads on: it was this node alone")

	look(nobody, time.Hour)
	look(nobody, leaderlessFor)
	recovered := look(a, time.Second)
	require.Equal(t, "cluster_degraded-2", recovered.endedID)
	require.Len(t, recovered.events, 1)
	require.Equal(t, event.ClusterRecovered, recovered.events[0].Type)
	require.InDelta(t, 2, recovered.events[0].Seconds, 1e-9)

	// The former leader stood still before its term ended, and another one leads immediately.
	look(a, time.Hour)
	before = leaderSilence{token: 1, since: now.Add(-9 * time.Second)}
	frozen := look(b, 0)
	require.Len(t, frozen.events, 2)
	require.Equal(t, event.Event{ID: "cluster_degraded-1", Type: event.ClusterDegraded, Time: before.since, Token: 1,
		Revision: 7}, frozen.events[0])
	require.Equal(t, event.ClusterRecovered, frozen.events[1].Type)
	require.InDelta(t, 9, frozen.events[1].Seconds, 1e-9)
	require.Empty(t, frozen.endedID)
	require.Equal(t, leaderlessResult{}, look(b, time.Hour), "it is said once")
	// Or after a moment without a leader.
	before = leaderSilence{token: 2, since: now.Add(-5 * time.Second)}
	require.Equal(t, before.since, look(nobody, 0).events[0].Time)
	require.InDelta(t, 5.5, look(a, time.Second/2).events[0].Seconds, 1e-9)
	require.Equal(t, leaderlessResult{}, look(b, time.Hour), "what is known is of another leader's term")
	before = leaderSilence{token: 2, since: now.Add(-time.Second / 2)}
	require.Equal(t, leaderlessResult{}, look(a, 0), "for a moment")
	before = leaderSilence{}

	l = leaderless{}
	look(nobody, 0)
	require.Equal(t, "cluster_degraded-at-7", look(nobody, leaderlessFor).events[0].ID, "there was no leader yet")
}

func TestFailover(t *testing.T) {
	leader := state.Leader{Address: "a:1", Token: 1}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var f failover
	var silent silentSince
	see := func(e event.Event) float64 {
		silent.onEvent(&e)
		f = f.onEvent(&e, leader, silent)
		return e.Seconds
	}
	require.Zero(t, see(event.Event{Type: event.LeaderElected, Time: at(0)}), "nobody led before")
	see(event.Event{Type: event.LeaderLost, Time: at(1)})
	require.EqualValues(t, 3, see(event.Event{Type: event.LeaderElected, Time: at(4)}))

	see(event.Event{Type: event.NodeAccused, Node: "a:1", Time: at(10)})
	see(event.Event{Type: event.NodeAccused, Node: "a:1", Time: at(11)})
	see(event.Event{Type: event.LeaderLost, Time: at(12)})
	require.EqualValues(t, 2, see(event.Event{Type: event.LeaderElected, Time: at(12)}), "from the first accusation on")

	see(event.Event{Type: event.NodeAccused, Node: "a:1", Time: at(20)})
	see(event.Event{Type: event.NodeRefuted, Node: "a:1", Time: at(21)})
	see(event.Event{Type: event.NodeAccused, Node: "b:1", Time: at(21)})
	see(event.Event{Type: event.LeaderLost, Time: at(30)})
	require.Zero(t, see(event.Event{Type: event.LeaderElected, Time: at(30)}), "it lived, and another was accused")

	see(event.Event{Type: event.NodeSilent, Node: "a:1", Time: at(42), Seconds: 2})
	see(event.Event{Type: event.NodeSilent, Node: "b:1", Time: at(45), Seconds: 2})
	see(event.Event{Type: event.NodeLost, Node: "a:1", Time: at(50)})
	require.EqualValues(t, 10, see(event.Event{Type: event.LeaderLost, Time: at(50)}), "it had not answered")
	require.EqualValues(t, 11, see(event.Event{Type: event.LeaderElected, Node: "b:1", Time: at(51)}), "since then")
	leader = state.Leader{Address: "b:1", Token: 2}
	require.EqualValues(t, 17, see(event.Event{Type: event.LeaderLost, Time: at(60)}), "silent before it led")
	see(event.Event{Type: event.LeaderElected, Node: "a:1", Time: at(60)})
	leader = state.Leader{Address: "a:1", Token: 3}
	see(event.Event{Type: event.NodeSilent, Node: "a:1", Time: at(72), Seconds: 2})
	see(event.Event{Type: event.NodeAnswering, Node: "a:1", Time: at(75), Seconds: 2})
	require.Zero(t, see(event.Event{Type: event.LeaderLost, Time: at(80)}), "it answers")
	require.Zero(t, see(event.Event{Type: event.LeaderElected, Node: "b:1", Time: at(80)}))

	all := newFailoverCounter()
	all.countEvent(event.Event{Type: event.LeaderElected, Seconds: 3600})
	all.countEvent(event.Event{Type: event.LeaderLost, Reason: "stopped"})
	all.countEvent(event.Event{Type: event.LeaderElected, Seconds: 0})
	all.countEvent(event.Event{Type: event.LeaderElected, Seconds: 0.2})
	all.countEvent(event.Event{Type: event.LeaderElected, Seconds: 3600})
	all.countEvent(event.Event{Type: event.LeaderLost, Reason: "resigned"})
	before := all.read()
	all.countEvent(event.Event{Type: event.LeaderLost, Reason: "resigned"})
	require.EqualValues(t, 3, before.Elected.Count)
	require.EqualValues(t, 1, before.Elected.Buckets[0].Count)
	require.EqualValues(t, 2, before.Elected.Buckets[len(before.Elected.Buckets)-1].Count)
	require.EqualValues(t, 1, before.Lost["resigned"])
}

// A removal names the time that the member had to refute the first accusation.
func TestRemovalSaysTheGracePeriod(t *testing.T) {
	var a accusedSince
	see := func(what event.Type, node string, after float64) float64 {
		e := event.Event{Type: what, Node: node, Time: time.Unix(1_000, 0).Add(time.Duration(after * float64(time.Second)))}
		a.onEvent(&e)
		return e.Seconds
	}
	require.Zero(t, see(event.NodeAccused, "a:1", 0))
	require.Zero(t, see(event.NodeRefuted, "a:1", 1))
	require.Zero(t, see(event.NodeAccused, "a:1", 5))
	require.Zero(t, see(event.NodeAccused, "b:1", 5.1))
	require.Zero(t, see(event.NodeAccused, "a:1", 5.2))
	require.InDelta(t, 0.5, see(event.NodeRemoved, "a:1", 5.5), 1e-6)
	require.Zero(t, see(event.NodeJoined, "b:1", 6))
	require.Zero(t, see(event.NodeRemoved, "b:1", 7), "of another incarnation")
}

// A node that alone was cut off, and leads on its return, does not record a time without a leader.
func TestDegradedIsDisproved(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(1_000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	degraded := event.Event{Type: event.ClusterDegraded, Token: 5, Time: at(10)}
	recovered := event.Event{Type: event.ClusterRecovered, Token: 9, Time: at(30), Seconds: 20}
	elected := func(by string, token int64, after float64) event.Event {
		return event.Event{Type: event.LeaderElected, Token: token, Time: at(after), RecordedBy: by}
	}
	for name, c := range map[string]struct {
		log  []event.Event
		want bool
	}{
		"nothing known":         {},
		"the leader before":     {log: []event.Event{elected("b", 5, 1)}},
		"the own election":      {log: []event.Event{elected("b", 5, 1), elected("a", 9, 30)}},
		"another one led":       {log: []event.Event{elected("b", 5, 1), elected("b", 7, 12)}, want: true},
		"something else is new": {log: []event.Event{{Type: event.NodeLost, RecordedBy: "b", Time: at(25)}}},
	} {
		require.Equal(t, c.want, isDisproved(degraded, c.log, "a"), name)
		require.Equal(t, c.want, isDisproved(recovered, c.log, "a"), name)
	}
	require.False(t, isDisproved(event.Event{Type: event.NodeLost, Time: at(10)}, []event.Event{elected("b", 7, 12)}, "a"))
}

// The last node to stay records that it left; if several stop at once, each of them does.
func TestLeavesLast(t *testing.T) {
	member := func(address string, stopping bool) *state.Member {
		m := &state.Member{Incarnation: 1}
		m.Address, m.Stopping = address, stopping
		return m
	}
	for name, c := range map[string]struct {
		members []*state.Member
		want    bool
	}{
		"alone":          {members: []*state.Member{member("a", true)}, want: true},
		"another stays":  {members: []*state.Member{member("a", true), member("b", false)}},
		"both stop":      {members: []*state.Member{member("a", true), member("b", true)}, want: true},
		"not registered": {members: []*state.Member{member("b", true)}},
	} {
		m, last := leavesLast(&state.Snapshot{Members: c.members}, "a")
		require.Equal(t, c.want, last, name)
		if last {
			require.Equal(t, "a", m.Address)
		}
	}
}

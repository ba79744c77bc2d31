package eventlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

func member(address string, incarnation int64, alter ...func(*state.Member)) *state.Member {
	m := &state.Member{Address: address, Incarnation: incarnation, Record: state.Record{Lease: incarnation}}
	for _, a := range alter {
		a(m)
	}
	return m
}

func stopping(m *state.Member) { m.Stopping, m.Draining = true, true }
func draining(m *state.Member) { m.Draining = true }

func stands(m *state.Member, revision int64) *state.Candidate {
	return &state.Candidate{KeyLease: m.Lease, Lease: m.Lease, Address: m.Address, CreateRevision: revision}
}

func accuses(m *state.Member, accuser string, revision int64) *state.Accusation {
	return &state.Accusation{Address: m.Address, Accuser: accuser, ModRevision: revision,
		AccusationRecord: state.AccusationRecord{Incarnation: m.Incarnation, Evidence: "refused"}}
}

// told returns events as short texts.
func told(events []event.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID + " " + e.Node
		if e.Reason != "" {
			out[i] += ": " + e.Reason
		}
	}
	return out
}

func TestDerive(t *testing.T) {
	a, b := member("a:1", 10), member("b:1", 20)
	at := func(revision int64, members []*state.Member, queue ...*state.Candidate) *state.Snapshot {
		return &state.Snapshot{Revision: revision, Members: members, Queue: queue}
	}
	both := []*state.Member{a, b}
	led := at(30, both, stands(a, 11), stands(b, 21))
	accused := at(31, both, led.Queue...)
	accused.Accusations = []*state.Accusation{accuses(a, "b:1", 31)}
	marked := at(32, []*state.Member{b}, stands(b, 21))
	marked.Accusations = []*state.Accusation{{Address: "a:1", Accuser: "y", AccusationRecord: state.AccusationRecord{
		Incarnation: a.Incarnation, Evidence: "silence", Removed: true}}}
	asked := at(31, both, led.Queue...)
	asked.Request = &state.Request{RequestRecord: state.RequestRecord{Kind: state.RequestResign, Token: 11}}
	acting := at(31, both)
	acting.Acting = &state.Acting{Address: "a:1", Lease: a.Lease, CreateRevision: 31}
	says := func(watcher string, revision int64) *state.Silence {
		return &state.Silence{Address: a.Address, Watcher: watcher, CreateRevision: revision, ModRevision: revision,
			SilenceRecord: state.SilenceRecord{Incarnation: a.Incarnation, SilentMS: 2000}}
	}
	silent, silenter, another := at(31, both, led.Queue...), at(32, both, led.Queue...), at(32, both, led.Queue...)
	silent.Silences = []*state.Silence{says("y", 31)}
	silenter.Silences = []*state.Silence{says("x", 32), says("y", 31)}
	another.Silences = []*state.Silence{says("x", 32)}
	other := at(5, nil)
	other.History = 1
	lingers := at(32, both, led.Queue...)
	lingers.Lingering = []state.LingeringState{{Member: a, Candidate: led.Queue[0]}}

	for name, c := range map[string]struct {
		before, now *state.Snapshot
		want        []string
	}{
		"nothing":    {led, led, []string{}},
		"first node": {at(9, nil), at(10, []*state.Member{a}), []string{"node_joined-10 a:1"}},
		"first leads": {at(10, []*state.Member{a}), at(11, []*state.Member{a}, stands(a, 11)), []string{
			"leader_elected-11 a:1"}},
		"lease ran out": {led, at(40, []*state.Member{b}, stands(b, 21)), []string{
			"node_lost-10 a:1", "leader_lost-11 a:1: session lost", "leader_elected-21 b:1"}},
		"accused":    {led, accused, []string{"node_accused-31 a:1: refused"}},
		"it answers": {accused, at(32, both, led.Queue...), []string{"node_refuted-31 a:1"}},
		"removed": {accused, at(32, []*state.Member{b}, stands(b, 21)), []string{
			"node_removed-10 a:1: refused", "leader_lost-11 a:1: its process is gone", "leader_elected-21 b:1"}},
		"removed for its silence": {led, marked, []string{
			"node_removed-10 a:1: silence", "leader_lost-11 a:1: it stands still or is cut off", "leader_elected-21 b:1"}},
		"resigned": {led, at(33, both, stands(b, 21)), []string{
			"leader_lost-11 a:1: resigned", "leader_elected-21 b:1"}},
		"asked to": {asked, at(33, both, stands(b, 21)), []string{
			"leader_lost-11 a:1: asked to give way", "leader_elected-21 b:1"}},
		"stops": {at(31, []*state.Member{member("a:1", 10, stopping), b}, led.Queue...),
			at(33, []*state.Member{b}, stands(b, 21)), []string{
				"node_left-10 a:1", "leader_lost-11 a:1: stopped", "leader_elected-21 b:1"}},
		"nobody is next": {at(30, both, stands(a, 11)), at(31, both), []string{
			"leader_lost-11 a:1: resigned", "election_started-11 "}},
		"another incarnation": {led, at(41, []*state.Member{member("a:1", 40), b}, stands(b, 21)), []string{
			"node_lost-10 a:1", "node_joined-40 a:1", "leader_lost-11 a:1: session lost", "leader_elected-21 b:1"}},
		"drains": {led, at(31, []*state.Member{member("a:1", 10, draining, func(m *state.Member) { m.ModRevision = 31 }), b},
			led.Queue...), []string{"drain_started-31 a:1"}},
		"fallback": {at(30, both), acting, []string{"fallback_entered-31 a:1", "leader_elected-31 a:1"}},
		"fallback ends": {acting, at(35, both, stands(b, 33)), []string{
			"leader_lost-31 a:1: fallback superseded", "fallback_left-31 a:1", "leader_elected-33 b:1"}},
		"silent":                  {led, silent, []string{"node_silent-31 a:1"}},
		"silent to two at once":   {led, silenter, []string{"node_silent-31 a:1"}},
		"silent to another, too":  {silent, silenter, []string{}},
		"silent to another alone": {silenter, another, []string{}},
		"answers":                 {silenter, at(33, both, led.Queue...), []string{"node_answering-31 a:1"}},
		"silent, and stops": {silent, at(33, []*state.Member{member("a:1", 10, stopping), b}, led.Queue...),
			[]string{}},
		"silent, and gone": {silent, at(33, []*state.Member{b}, stands(b, 21)), []string{
			"node_lost-10 a:1", "leader_lost-11 a:1: session lost", "leader_elected-21 b:1"}},
		"other history": {led, other, nil},
		"lingers":       {led, lingers, []string{"node_lost-10 a:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := DeriveEvents(c.before, c.now)
			if c.want == nil {
				require.Nil(t, events)
				return
			}
			require.Equal(t, c.want, told(events))
			if len(events) > 0 {
				require.True(t, mayHoldEvents(c.before, c.now))
			}
			for _, e := range events {
				require.Equal(t, c.now.Revision, e.Revision)
				require.True(t, e.Time.IsZero())
			}
		})
	}
}

// The oldest release in the cluster decides the format. Events of a member that comes and goes have ids of their own.
func TestDeriveFormat(t *testing.T) {
	at := func(revision int64, members ...*state.Member) *state.Snapshot {
		return &state.Snapshot{Revision: revision, Members: members}
	}
	reads := func(address string, incarnation int64, newest int) *state.Member {
		return &state.Member{Address: address, Incarnation: incarnation,
			Record: state.Record{Formats: format.Range{Oldest: 1, Newest: newest}}}
	}
	old, newer, newest := reads("a:1", 10, 1), reads("b:1", 11, 2), reads("c:1", 12, 3)
	for name, c := range map[string]struct {
		before, now *state.Snapshot
		want        string
	}{
		"an old one joins":           {at(11, newer), at(20, old, newer), "format_changed-10-1 a:1 format 1"},
		"it leaves":                  {at(20, old, newer), at(21, newer), "format_changed-10-2 b:1 format 2"},
		"the next newest decides":    {at(20, newer, newest), at(21, newest), "format_changed-11-3 c:1 format 3"},
		"a new one joins":            {at(20, newer), at(21, newer, newest), ""},
		"one of two old ones leaves": {at(20, old, reads("d:1", 13, 1)), at(21, old), ""},
		"the first member":           {at(20), at(21, old), ""},
		"the last one, with an heir": {at(20, old), at(21, newest), "format_changed-10-3 c:1 format 3"},
		"the last one, without":      {at(20, old), at(21), ""},
		"a record without formats": {at(20, newest), at(21, newest, &state.Member{Address: "z:1", Incarnation: 15}),
			"format_changed-15-1 z:1 format 1"},
	} {
		var found string
		for _, e := range DeriveEvents(c.before, c.now) {
			if e.Type == event.FormatChanged {
				found += fmt.Sprintf("%s %s format %d", e.ID, e.Node, e.ClusterFormat)
			}
		}
		require.Equal(t, c.want, found, name)
	}
}

func TestDeriveShards(t *testing.T) {
	a := sharding.Member{Owner: sharding.Owner{Address: "a:1", Incarnation: 10}}
	b := sharding.Member{Owner: sharding.Owner{Address: "b:1", Incarnation: 20}}
	plan := func(generation int64, current *sharding.Map, members ...sharding.Member) *sharding.Map {
		r, err := sharding.Plan(sharding.Input{Generation: generation, Shards: 8, Current: current, Members: members,
			Mode: sharding.Rebalance})
		require.NoError(t, err)
		return r.Map
	}
	at := func(revision int64, m *sharding.Map) *state.Snapshot {
		return &state.Snapshot{Revision: revision, ShardMap: &state.ShardMap{Map: m, ModRevision: revision}}
	}
	none := &state.Snapshot{Revision: 5}
	one := at(6, plan(6, nil, a))
	two := at(7, plan(7, one.ShardMap.Map, a, b))
	bad := &state.Snapshot{Revision: 8, ShardMap: &state.ShardMap{Err: sharding.ErrBadMap, ModRevision: 8}}

	for name, c := range map[string]struct {
		before, now *state.Snapshot
		moved       int
	}{"first map": {none, one, 8}, "a node more": {one, two, 4}, "after an unreadable one": {bad, two, 8}} {
		events := DeriveEvents(c.before, c.now)
		require.Len(t, events, 1, name)
		require.Equal(t, event.ShardsRebalanced, events[0].Type, name)
		require.Equal(t, c.moved, events[0].Moved, name)
		require.Equal(t, c.now.ShardMap.Generation(), events[0].Generation, name)
	}
	require.Empty(t, DeriveEvents(two, bad))
	require.Empty(t, DeriveEvents(two, none))
	same := at(9, two.ShardMap.Map)
	require.Empty(t, DeriveEvents(two, same), "the moves that were done have left it")
}

// The event that ends a silence has its whole length, by the clock of the node that reports it.
func TestSilenceHasItsLength(t *testing.T) {
	var l silentSince
	began := event.Event{Type: event.NodeSilent, Node: "a:1", Time: time.Unix(102, 0), Seconds: 2}
	l.onEvent(&began)
	over := event.Event{Type: event.NodeAnswering, Node: "a:1", Time: time.Unix(109, 0), Seconds: 4}
	l.onEvent(&over)
	require.InDelta(t, 9, over.Seconds, 0.001)
	unknown := event.Event{Type: event.NodeAnswering, Node: "a:1", Time: time.Unix(209, 0), Seconds: 4}
	l.onEvent(&unknown)
	require.InDelta(t, 4, unknown.Seconds, 0.001, "as its watchers said")
	l.onEvent(&began)
	l.onEvent(&event.Event{Type: event.NodeLost, Node: "a:1"})
	require.Empty(t, l)
}

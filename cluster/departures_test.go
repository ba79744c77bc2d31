package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestDepartures(t *testing.T) {
	of := func(members ...*state.Member) *state.Snapshot { return &state.Snapshot{Members: members} }
	stays, crashes := &state.Member{Address: "stays:1"}, &state.Member{Address: "crashes:1"}
	stops := &state.Member{Address: "stops:1"}
	stopping := *stops
	stopping.Stopping = true
	began := time.Unix(1000, 0)

	d, gone, again := connectionCloser{}.applySnapshot(of(stays, crashes, stops), nil, began)
	require.Empty(t, gone)
	require.Zero(t, again)
	d, gone, _ = d.applySnapshot(of(stays, crashes, &stopping), nil, began)
	require.Empty(t, gone)

	d, gone, again = d.applySnapshot(of(stays), nil, began)
	require.Equal(t, []string{"crashes:1"}, gone, "a call to it may wait for nothing")
	require.Equal(t, closeDelay, again)
	left, gone, again := d.applySnapshot(of(stays), nil, began.Add(closeDelay-1))
	require.Empty(t, gone, "what it has answered may have to be read still")
	require.EqualValues(t, 1, again)
	left, gone, again = left.applySnapshot(of(stays), nil, began.Add(closeDelay))
	require.Equal(t, []string{"stops:1"}, gone, "it may have stood still while it stopped")
	require.Zero(t, again)
	_, gone, _ = left.applySnapshot(of(stays), nil, began.Add(time.Hour))
	require.Empty(t, gone, "once")

	d, gone, again = d.applySnapshot(of(stays, stops), nil, began.Add(1))
	require.Empty(t, gone)
	require.Zero(t, again)
	_, gone, _ = d.applySnapshot(of(stays, stops), nil, began.Add(time.Hour))
	require.Empty(t, gone, "the address is another process's")
}

// A node may be marked as stopping and gone before the next look. The snapshots between were published all the
// same.
func TestDepartureBetweenTwoLooks(t *testing.T) {
	of := func(members ...*state.Member) *state.Snapshot { return &state.Snapshot{Members: members} }
	stops := &state.Member{Address: "stops:1"}
	marked := *stops
	marked.Stopping = true
	began := time.Unix(1000, 0)
	var seen stoppingNodes
	before, _, _ := connectionCloser{}.applySnapshot(of(stops), seen.takeSeen(), began)
	same := of(stops)
	require.False(t, seen.concerns(same, same))
	require.True(t, seen.concerns(of(stops), of(&marked)))
	require.True(t, seen.concerns(of(&marked), of()))
	noted := seen.takeSeen()
	require.Empty(t, seen.takeSeen())

	_, gone, again := before.applySnapshot(of(), noted, began)
	require.Empty(t, gone)
	require.Equal(t, closeDelay, again)
	_, gone, _ = before.applySnapshot(of(), nil, began)
	require.NotEmpty(t, gone, "else it would be taken for one that crashed")

	// The recorded stops may be newer than the snapshot.
	newer, _, _ := before.applySnapshot(of(stops), noted, began)
	_, gone, again = newer.applySnapshot(of(), nil, began)
	require.Empty(t, gone)
	require.Equal(t, closeDelay, again)
}

// If another process has the address, connections to its predecessor, which may stand still, are useless.
func TestDepartureOfAnIncarnation(t *testing.T) {
	of := func(incarnation int64) *state.Snapshot {
		return &state.Snapshot{Members: []*state.Member{{Address: "a:1", Incarnation: incarnation}}}
	}
	before, _, _ := connectionCloser{}.applySnapshot(of(5), nil, time.Unix(1000, 0))
	same, gone, _ := before.applySnapshot(of(5), nil, time.Unix(1001, 0))
	require.Empty(t, gone)
	next, gone, _ := same.applySnapshot(of(8), nil, time.Unix(1002, 0))
	require.Equal(t, []string{"a:1"}, gone)
	require.Len(t, next.connectedNodes(), 1)
	require.EqualValues(t, 8, next.connectedNodes()[0].GetIncarnation())
}

// Connections to a stopped node are kept for as long as its last replies may be on their way.
func TestNodesToKeepConnectionsTo(t *testing.T) {
	of := func(members ...*state.Member) *state.Snapshot { return &state.Snapshot{Members: members} }
	stays, stops := &state.Member{Address: "stays:1"}, &state.Member{Address: "a-stops:1", Incarnation: 3}
	stops.Stopping = true
	began := time.Unix(1000, 0)
	d, _, _ := connectionCloser{}.applySnapshot(of(stays, stops), nil, began)
	require.Len(t, d.connectedNodes(), 2)
	d, _, _ = d.applySnapshot(of(stays), nil, began)
	require.Len(t, d.connectedNodes(), 2)
	require.Equal(t, "a-stops:1", d.connectedNodes()[0].GetAddress())
	require.EqualValues(t, 3, d.connectedNodes()[0].GetIncarnation())
	d, _, _ = d.applySnapshot(of(stays), nil, began.Add(closeDelay))
	require.Len(t, d.connectedNodes(), 1)
}

// A member of an election only has no server to connect to.
func TestNodesToConnectTo(t *testing.T) {
	s := &state.Snapshot{Members: []*state.Member{{Address: "node:1"},
		{Address: "only", Record: state.Record{ElectionOnly: true}}}}
	d, _, _ := connectionCloser{}.applySnapshot(s, nil, time.Unix(1000, 0))
	nodes := d.connectedNodes()
	require.Len(t, nodes, 1)
	require.Equal(t, "node:1", nodes[0].GetAddress())
}

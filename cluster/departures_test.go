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

	d, gone, again := departures{}.look(of(stays, crashes, stops), began)
	require.Empty(t, gone)
	require.Zero(t, again)
	d, gone, _ = d.look(of(stays, crashes, &stopping), began)
	require.Empty(t, gone)

	d, gone, again = d.look(of(stays), began)
	require.Equal(t, []string{"crashes:1"}, gone, "a call to it may wait for nothing")
	require.Equal(t, lastReplies, again)
	left, gone, again := d.look(of(stays), began.Add(lastReplies-1))
	require.Empty(t, gone, "what it has answered may have to be read still")
	require.EqualValues(t, 1, again)
	left, gone, again = left.look(of(stays), began.Add(lastReplies))
	require.Equal(t, []string{"stops:1"}, gone, "it may have stood still while it stopped")
	require.Zero(t, again)
	_, gone, _ = left.look(of(stays), began.Add(time.Hour))
	require.Empty(t, gone, "once")

	d, gone, again = d.look(of(stays, stops), began.Add(1))
	require.Empty(t, gone)
	require.Zero(t, again)
	_, gone, _ = d.look(of(stays, stops), began.Add(time.Hour))
	require.Empty(t, gone, "the address is another process's")
}

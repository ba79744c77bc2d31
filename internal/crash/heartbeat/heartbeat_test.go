package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }

// look looks at every LookEvery between two times, while the count of heartbeats is heard.
func look(l Listener, from, to int, heard uint64) Listener {
	for ms := from; ms <= to; ms += int(LookEvery / time.Millisecond) {
		l = l.Look(at(ms), heard)
	}
	return l
}

func TestSilence(t *testing.T) {
	l := Listener{}.Opened(at(0), true)
	l = look(l, 100, 500, 1)
	l = look(l, 600, 2600, 1)
	require.Equal(t, 2500*time.Millisecond, l.Silent(), "from the look that heard of it")
	require.Zero(t, l.Look(at(2700), 2).Silent(), "it answers")
	require.Zero(t, l.Opened(at(2700), true).Silent(), "a watch was opened: it lives")
	require.Zero(t, l.Goodbye().Silent())
	broken := look(l, 2700, 3600, 1) // the connection was closed
	require.Equal(t, l.Silent()+time.Second, broken.Silent())
}

// An older version never counts as silent.
func TestOlderVersionsAreNotSilent(t *testing.T) {
	require.Zero(t, look(Listener{}.Opened(at(0), false), 100, 60_000, 0).Silent())
	require.Zero(t, look(Listener{}, 100, 60_000, 0).Silent())
}

// A pause of the listening process does not count as silence, and does not hide one.
func TestOwnPauseIsNoSilence(t *testing.T) {
	l := look(Listener{}.Opened(at(0), true), 100, 1000, 1)
	l = l.Look(at(61_000), 1)
	require.LessOrEqual(t, l.Silent(), 1100*time.Millisecond, "a minute of pause")
	require.Zero(t, l.Look(at(61_001), 120).Silent(), "what was sent meanwhile is read")

	busy := Listener{}.Opened(at(0), true)
	for ms := 0; ms <= 4000; ms += 200 { // a machine that pauses all the time
		busy = busy.Look(at(ms), 0)
	}
	require.Greater(t, busy.Silent(), SilentAfter)
	back := Listener{}.Opened(at(1000), true).Look(at(0), 0)
	require.Zero(t, back.Silent(), "a clock that goes back")
}

// Only a limited number of heartbeats is sent to a process that does not answer.
func TestSenderGivesUp(t *testing.T) {
	var s Sender
	sent := 0
	for range 1000 {
		var send bool
		if s, send = s.Tick(0); send {
			sent++
		}
	}
	require.Equal(t, patience, sent)
	s, send := s.Tick(1)
	require.True(t, send, "it answers again")
	_, send = s.Tick(1)
	require.True(t, send)
}

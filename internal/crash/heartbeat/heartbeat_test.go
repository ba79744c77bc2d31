package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }

// look looks at every CheckEvery between two times, while the count of heartbeats is heard.
func look(l Listener, from, to int, heard uint64) Listener {
	for ms := from; ms <= to; ms += int(CheckEvery / time.Millisecond) {
		l = l.OnCheck(at(ms), heard)
	}
	return l
}

func TestSilence(t *testing.T) {
	l := Listener{}.OnOpened(at(0), true)
	l = look(l, 100, 500, 1)
	l = look(l, 600, 2600, 1)
	require.Equal(t, 2500*time.Millisecond, l.SilentFor(), "from the look that heard of it")
	require.Zero(t, l.OnCheck(at(2700), 2).SilentFor(), "it answers")
	require.Zero(t, l.OnOpened(at(2700), true).SilentFor(), "a watch was opened: it lives")
	require.Zero(t, l.OnGoodbye().SilentFor())
	broken := look(l, 2700, 3600, 1) // the connection was closed
	require.Equal(t, l.SilentFor()+time.Second, broken.SilentFor())
}

// An older version never counts as silent.
func TestOlderVersionsAreNotSilent(t *testing.T) {
	require.Zero(t, look(Listener{}.OnOpened(at(0), false), 100, 60_000, 0).SilentFor())
	require.Zero(t, look(Listener{}, 100, 60_000, 0).SilentFor())
}

// A pause of the listening process does not count as silence, and does not hide one.
func TestOwnPauseIsNoSilence(t *testing.T) {
	l := look(Listener{}.OnOpened(at(0), true), 100, 1000, 1)
	l = l.OnCheck(at(61_000), 1)
	require.LessOrEqual(t, l.SilentFor(), 1100*time.Millisecond, "a minute of pause")
	require.Zero(t, l.OnCheck(at(61_001), 120).SilentFor(), "what was sent meanwhile is read")

	busy := Listener{}.OnOpened(at(0), true)
	for ms := 0; ms <= 4000; ms += 200 { // a machine that pauses all the time
		busy = busy.OnCheck(at(ms), 0)
	}
	require.Greater(t, busy.SilentFor(), SilentAfter)
	back := Listener{}.OnOpened(at(1000), true).OnCheck(at(0), 0)
	require.Zero(t, back.SilentFor(), "a clock that goes back")
}

// Only a limited number of heartbeats is sent to a process that does not answer.
func TestSenderGivesUp(t *testing.T) {
	var s Sender
	sent := 0
	for range 1000 {
		var send bool
		if s, send = s.OnTick(0); send {
			sent++
		}
	}
	require.Equal(t, maxUnheard, sent)
	s, send := s.OnTick(1)
	require.True(t, send, "it answers again")
	_, send = s.OnTick(1)
	require.True(t, send)
}

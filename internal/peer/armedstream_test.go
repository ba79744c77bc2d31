package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
)

// lockedArmer checks that the lock of a stream is held by NextBeat alone.
type lockedArmer struct {
	t      *testing.T
	stream *armedStream
	calls  []string
}

func (a *lockedArmer) record(call string, locked bool) {
	a.calls = append(a.calls, call)
	if free := a.stream.mu.TryLock(); free {
		a.stream.mu.Unlock()
		require.False(a.t, locked, call)
	} else {
		require.True(a.t, locked, call)
	}
}

// NextBeat implements [heartbeat.Armer].
func (a *lockedArmer) NextBeat(uint64, string) (heartbeat.Beat, time.Duration) {
	a.record("next", true)
	return heartbeat.Beat{Number: 1}, time.Second
}

// Acknowledged implements [heartbeat.Armer].
func (a *lockedArmer) Acknowledged(uint64, uint64) { a.record("acknowledged", false) }

// SaidGoodbye implements [heartbeat.Armer].
func (a *lockedArmer) SaidGoodbye(uint64) { a.record("goodbye", false) }

// RemovalReported implements [heartbeat.Armer].
func (a *lockedArmer) RemovalReported(int64) { a.record("report", false) }

// SaidGoodbye waits for a NextBeat in progress, and none follows it.
func TestCallsOfOneStream(t *testing.T) {
	t.Parallel()
	s := &armedStream{number: 1}
	a := &lockedArmer{t: t, stream: s}
	s.acknowledged(1) // not armed yet
	b, next := s.nextBeat(a, "watcher")
	require.True(t, b.Arms())
	require.Equal(t, time.Second, next)
	s.acknowledged(0) // a plain heartbeat
	s.acknowledged(1)
	s.goodbye()
	b, _ = s.nextBeat(a, "watcher")
	require.False(t, b.Arms())
	require.Equal(t, []string{"next", "acknowledged", "goodbye"}, a.calls)

	unarmed := &armedStream{number: 2}
	unarmed.goodbye()
	b, _ = unarmed.nextBeat(a, "watcher")
	require.False(t, b.Arms())
	require.Len(t, a.calls, 3)
}

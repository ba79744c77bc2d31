package deadline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// times are those of the tests.
var times = ProofTimes{Acknowledged: 4 * time.Second, Read: 2 * time.Second}

func TestProofTimes(t *testing.T) {
	p := ProofTimesOf(4 * time.Second)
	require.Equal(t, ProofTimes{Acknowledged: 3 * time.Second, Read: 1500 * time.Millisecond}, p)
	require.Equal(t, 375*time.Millisecond, p.HeartbeatEvery())
	require.Less(t, p.ReadEvery(), p.Read/2, "one read in a row may be lost")
}

func TestProofByAcknowledgements(t *testing.T) {
	s := time.Second
	p := NewProofs(times)
	require.True(t, p.Valid(at(100*s)), "without an armed watcher the lease decides")
	p = p.Arm(7, 1, at(s))
	p = p.Arm(8, 2, at(2*s))
	require.Equal(t, 2, p.Armed())
	require.True(t, p.Valid(at(5*s-1)))
	require.False(t, p.Valid(at(5*s)), "the first has acknowledged nothing")
	p = p.OnAcknowledged(7, at(3*s), at(4*s))
	require.True(t, p.Valid(at(6*s-1)), "each counts from when its heartbeat was sent, or it was armed")
	require.False(t, p.Valid(at(6*s)))
	p = p.OnAcknowledged(8, at(4*s), at(5*s))
	p = p.OnAcknowledged(8, at(2*s), at(5*s)) // on another stream
	p = p.OnAcknowledged(9, at(5*s), at(5*s)) // it is not armed
	require.True(t, p.Valid(at(7*s-1)))
	require.False(t, p.Valid(at(7*s)))
	early := Instant{Mono: at(6 * s).Mono, Wall: at(7 * s).Wall}
	require.False(t, p.Valid(early), "the clock that is ahead decides")
}

func TestProofByReads(t *testing.T) {
	s := time.Second
	p := NewProofs(times)
	p = p.Arm(7, 1, at(s))
	p = p.OnRead(at(4*s), at(4500*time.Millisecond))
	p = p.OnRead(at(3*s), at(4600*time.Millisecond)) // its answer was slower
	require.True(t, p.Valid(at(6*s-1)))
	require.False(t, p.Valid(at(6*s)))
}

// After a lapse only a read that still counts makes the holder valid again.
func TestLapse(t *testing.T) {
	s := time.Second
	p := NewProofs(times)
	p = p.Arm(7, 1, at(s))
	p = p.OnAcknowledged(7, at(4*s), at(6*s))
	require.True(t, p.Lapsed(), "for a second nothing held")
	require.False(t, p.Valid(at(6*s)), "though the acknowledgement would count")
	p = p.OnRelease(1, at(6*s))
	require.Zero(t, p.Armed())
	require.False(t, p.Valid(at(6*s)))
	require.Zero(t, p.UntilRead(at(6*s), s), "a read is due, without any watcher")
	late := p.OnRead(at(6*s), at(8*s))
	require.False(t, late.Valid(at(8*s)), "its answer came too late")
	p = p.OnRead(at(6*s), at(7*s))
	require.True(t, p.Valid(at(7*s)))
}

// A watcher is dropped on the goodbye of its newest arming, or when it is a member no more.
func TestDropped(t *testing.T) {
	s := time.Second
	p := NewProofs(times)
	p = p.Arm(7, 1, at(s))
	p = p.Arm(7, 3, at(4*s))
	p = p.Arm(7, 2, at(4*s)) // an older stream
	require.True(t, p.ArmedAt(7, 3))
	require.False(t, p.Valid(at(5*s)), "a new arming acknowledges nothing")
	old := p.OnRelease(1, at(4*s))
	require.Equal(t, 1, old.Armed(), "it was armed again since")
	require.Zero(t, func() int { p := p.OnRelease(3, at(4*s)); return p.Armed() }())

	none := func(int64) bool { return false }
	late := p.OnMembers(6, none, at(4*s))
	require.Equal(t, 1, late.Armed(), "at that revision it had not joined yet")
	gone := p.OnMembers(7, none, at(4*s))
	require.Zero(t, gone.Armed())
	here := p.OnMembers(9, func(watcher int64) bool { return watcher == 7 }, at(4*s))
	require.Equal(t, 1, here.Armed())
}

func TestReadIsDue(t *testing.T) {
	s := time.Second
	p := NewProofs(times)
	require.Equal(t, s, p.UntilRead(at(s), s))
	p = p.Arm(7, 1, at(s))
	p = p.OnAcknowledged(7, at(2*s), at(2*s))
	require.Equal(t, s/2, p.UntilRead(at(3*s), 9*s), "three heartbeats after the last that was acknowledged")
	require.Negative(t, p.UntilRead(at(4*s), 9*s))
}

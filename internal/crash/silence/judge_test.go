package silence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// five is longer than everything that the tests wait for.
const five = 5 * time.Second

// beat returns a heartbeat. Its acknowledgement counts for 4 s, and reads count for 2 s. After 1.75 s of silence the
// member is accused.
func beat(arming uint64) heartbeat.Beat {
	return heartbeat.Beat{Number: 1, Arming: arming, Heard: 1,
		Times: deadline.ProofTimes{Acknowledged: 4 * time.Second, Read: 2 * time.Second}}
}

// quiet lets so much time pass without a heartbeat.
func quiet(j Judge, from, to time.Duration) Judge {
	for now := from; now <= to; now += 100 * time.Millisecond {
		j = j.OnCheck(now)
	}
	return j
}

// armed returns a judge that was armed, and acknowledged the heartbeat, at 10 s.
func armed(t *testing.T) Judge {
	t.Helper()
	j, acknowledge := Judge{}.OnBeat(10*time.Second, beat(3))
	require.True(t, acknowledge)
	require.Equal(t, uint64(3), j.Arming())
	return j
}

func TestSilentMemberIsRemoved(t *testing.T) {
	j := quiet(armed(t), 10*time.Second, 11700*time.Millisecond)
	require.Equal(t, Listening, j.Phase())
	j = quiet(j, 11800*time.Millisecond, 11800*time.Millisecond)
	require.Equal(t, Accusing, j.Phase())
	j = j.OnAccused(11900*time.Millisecond, 77, 100*time.Millisecond, false)
	require.Equal(t, Waiting, j.Phase())
	require.Equal(t, int64(77), j.Revision())
	// 10 s + 4.0812 s is later than 11.9 s + 2.0406 s.
	j = quiet(j, 11900*time.Millisecond, 14*time.Second)
	require.Equal(t, Waiting, j.Phase())
	require.Equal(t, Waiting, j.OnCheck(14081199*time.Microsecond).phase)
	j = j.OnCheck(14081200 * time.Microsecond)
	require.Equal(t, Removing, j.Phase())
	require.Equal(t, Over, j.OnGone().phase)
	require.Equal(t, Listening, j.OnRefuted(14100*time.Millisecond).phase)
}

// The removal also waits from when etcd acknowledged the accusation, and for the grace period.
func TestLateAccusation(t *testing.T) {
	j := quiet(armed(t), 10*time.Second, 11800*time.Millisecond)
	late := j.OnAccused(20*time.Second, 77, 100*time.Millisecond, false)
	require.Equal(t, Waiting, late.OnCheck(22040*time.Millisecond).phase)
	require.Equal(t, Removing, late.OnCheck(22041*time.Millisecond).phase)
	far := j.OnAccused(20*time.Second, 77, 3*time.Second, false)
	require.Equal(t, Waiting, far.OnCheck(22999*time.Millisecond).phase)
	require.Equal(t, Removing, far.OnCheck(23*time.Second).phase)
}

func TestUnarmedWatcherNeverAccuses(t *testing.T) {
	j := quiet(Judge{}, 0, time.Minute)
	require.Equal(t, Listening, j.Phase())
	b := beat(1)
	b.Times.Read = 0
	j, acknowledge := Judge{}.OnBeat(0, b)
	require.False(t, acknowledge)
	require.Zero(t, j.Arming())
}

// While the member has not heard the last acknowledgement, the next ones would be in vain.
func TestUnheardAcknowledgement(t *testing.T) {
	j := armed(t)
	b := beat(3)
	b.Number, b.Heard = 2, 0
	j, acknowledge := j.OnBeat(11*time.Second, b)
	require.False(t, acknowledge)
	j = quiet(j, 10*time.Second, 11800*time.Millisecond)
	require.Equal(t, Accusing, j.Phase(), "it counts as silent since the one that it acknowledged")
	_, acknowledge = armed(t).OnBeat(11*time.Second, heartbeat.Beat{Number: 3, Arming: 4, Times: b.Times})
	require.True(t, acknowledge, "on another stream it begins anew")
	b.Heard = 1
	j, acknowledge = armed(t).OnBeat(11*time.Second, b)
	require.True(t, acknowledge)
	b.Number = 3
	_, acknowledge = j.OnBeat(12*time.Second, b)
	require.False(t, acknowledge)
}

// What arrives while it accuses is not acknowledged before etcd has confirmed that the accusation is gone.
func TestHeartbeatWhileAccusing(t *testing.T) {
	accusing := quiet(armed(t), 10*time.Second, 11800*time.Millisecond)
	waiting := accusing.OnAccused(11900*time.Millisecond, 77, 0, false)
	for _, j := range []Judge{accusing, waiting} {
		j, acknowledge := j.OnBeat(12*time.Second, beat(3))
		require.False(t, acknowledge)
		require.Equal(t, Withdrawing, j.Phase())
		require.Equal(t, Withdrawing, j.OnAccused(12*time.Second, 78, 0, false).phase, "the answer comes afterwards")
		j, acknowledge = j.OnBeat(12*time.Second, beat(3))
		require.False(t, acknowledge)
		j, acknowledge = j.OnWithdrawn().OnBeat(12*time.Second, beat(3))
		require.True(t, acknowledge)
		require.Equal(t, Listening, j.Phase())
	}
	removing := waiting.OnCheck(time.Minute)
	require.Equal(t, Removing, removing.Phase())
	removing, acknowledge := removing.OnBeat(time.Minute, beat(3))
	require.False(t, acknowledge)
	require.Equal(t, Removing, removing.Phase(), "what was sent has an outcome")
}

// A pause of the watcher is no silence of the member.
func TestPauseOfTheWatcher(t *testing.T) {
	j := armed(t).OnCheck(10100 * time.Millisecond).OnCheck(time.Minute)
	require.Equal(t, Listening, j.Phase())
	require.Equal(t, 250*time.Millisecond, j.Silent())
}

func TestRefutingMemberIsLeftAlone(t *testing.T) {
	j, now := armed(t), 10*time.Second
	accused := func() {
		t.Helper()
		for j.Phase() == Listening {
			now += 100 * time.Millisecond
			j = j.OnCheck(now)
		}
		require.Equal(t, Accusing, j.Phase())
	}
	refute := func() { j = j.OnAccused(now, 77, 0, false).OnCheck(now + five).OnRefuted(now) }
	accused()
	for _, rests := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		refute()
		refuted := now
		accused()
		require.GreaterOrEqual(t, now-refuted, rests*time.Second)
		require.Less(t, now-refuted, rests*time.Second+2*time.Second)
	}
	refute()
	now += 3 * time.Minute
	j = quiet(j, now, now)
	accused()
	refute()
	refuted := now
	accused()
	require.Less(t, now-refuted, 3*time.Second, "after a quiet time it begins anew")
}

func TestHoldOff(t *testing.T) {
	j := quiet(armed(t), 10*time.Second, 11800*time.Millisecond).OnAccused(12*time.Second, 77, 0, true)
	require.Equal(t, Withdrawing, j.Phase())
	j = quiet(j.OnWithdrawn(), 12*time.Second, 12900*time.Millisecond)
	require.Equal(t, Listening, j.Phase())
}

// After its release a judge is armed no more, not even by a stream that has not armed it before.
func TestRelease(t *testing.T) {
	j := quiet(armed(t), 10*time.Second, 11800*time.Millisecond)
	require.False(t, j.CanRelease())
	j = j.OnGiveUp()
	require.Equal(t, Withdrawing, j.Phase())
	require.False(t, j.CanRelease())
	j = j.OnWithdrawn()
	require.True(t, j.CanRelease())
	j = j.OnRelease()
	require.Zero(t, j.Arming())
	j, acknowledge := j.OnBeat(12*time.Second, beat(3))
	require.False(t, acknowledge, "a late one on the old stream")
	j, acknowledge = j.OnBeat(12*time.Second, beat(4))
	require.False(t, acknowledge)
	require.Zero(t, j.Arming())
	require.Equal(t, Listening, quiet(j, 12*time.Second, time.Minute).phase)
}

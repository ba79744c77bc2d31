package deadline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// beats returns the value for a process that ran for a while, with a beat at each of these times.
func beats(p Pauses, times ...time.Duration) Pauses {
	for _, t := range times {
		p, _ = p.OnBeat(at(t))
	}
	return p
}

func TestPauseIsConfirmedByARoundSentSince(t *testing.T) {
	ms := time.Millisecond
	p := beats(Pauses{}, 0, 50*ms, 100*ms)
	require.False(t, p.Stood(at(249*ms)))
	require.True(t, p.Stood(at(250*ms)), "before it is noticed")
	require.False(t, p.MayBeginWork(at(250*ms)))
	p, stood := p.OnBeat(at(300 * ms))
	require.Equal(t, 200*ms, stood)
	require.True(t, p.Stood(at(301*ms)))
	before := p.OnRound(at(299*ms), at(310*ms))
	require.True(t, before.Stood(at(311*ms)), "sent before")
	require.False(t, before.MayBeginWork(at(311*ms)))
	after := p.OnRound(at(300*ms), at(310*ms))
	require.False(t, after.Stood(at(311*ms)))
	require.True(t, after.MayBeginWork(at(311*ms)))
}

// A process that is paused in each round never has its claims confirmed, but may begin new work.
func TestRoundsThatPausesInterrupt(t *testing.T) {
	ms := time.Millisecond
	p := beats(Pauses{}, 0, 300*ms)
	p = beats(p, 600*ms) // the round was sent at 310
	require.True(t, p.RoundStillPermits(at(310*ms)))
	require.False(t, p.RoundStillPermits(at(290*ms)), "sent before the first")
	p = p.OnRound(at(310*ms), at(610*ms))
	require.True(t, p.Stood(at(611*ms)), "the keys may have gone since it was sent")
	require.True(t, p.MayBeginWork(at(611*ms)))
	p = beats(p, 900*ms)
	require.True(t, p.MayBeginWork(at(901*ms)), "for a second")
	require.False(t, p.MayBeginWork(at(1611*ms)))
	p = p.OnRound(at(610*ms), at(1000*ms))
	require.True(t, p.MayBeginWork(at(1900*ms)), "the next round does the same")

	long := beats(p, 2500*ms)
	require.False(t, long.RoundStillPermits(at(1100*ms)), "a round sent before a long pause is of long ago")
	require.False(t, long.MayBeginWork(at(2501*ms)))
	long = long.OnRound(at(1100*ms), at(2510*ms))
	require.False(t, long.MayBeginWork(at(2511*ms)))
	unnoticed := p.OnRound(at(1100*ms), at(2510*ms))
	require.False(t, unnoticed.MayBeginWork(at(2511*ms)), "nor before the process has noticed it")
}

func TestWhoLosesItsTimeToPausesIsStarved(t *testing.T) {
	lost := func(pause, run, total time.Duration, confirmed bool) (after time.Duration, starved bool) {
		p, now := beats(Pauses{}, 0), time.Duration(0)
		for now < total {
			now += pause
			p = beats(p, now)
			if confirmed {
				p = p.OnRound(at(now), at(now+time.Millisecond))
			}
			for end := now + run; now+50*time.Millisecond <= end; {
				now += 50 * time.Millisecond
				p = beats(p, now)
			}
			if p.Starved(ttl) {
				return now, true
			}
		}
		return now, false
	}
	for pause := 160 * time.Millisecond; pause <= 400*time.Millisecond; pause += 40 * time.Millisecond {
		for run := time.Duration(0); run <= 200*time.Millisecond; run += 50 * time.Millisecond {
			after, starved := lost(pause, run, time.Minute, false)
			require.True(t, starved, "%v in %v, never confirmed", pause, pause+run)
			require.Less(t, after, ttl/2)
		}
	}
	_, starved := lost(400*time.Millisecond, 100*time.Millisecond, time.Minute, true)
	require.True(t, starved, "confirmed, and most of the time lost all the same")
	_, starved = lost(400*time.Millisecond, 6*time.Second, 10*time.Minute, true)
	require.False(t, starved, "now and then")
	_, starved = lost(8*time.Second, 100*time.Millisecond, time.Second, false)
	require.False(t, starved, "once, for long")
	_, starved = lost(149*time.Millisecond, 0, time.Minute, false)
	require.False(t, starved)
}

// Whatever happens, a process that is reported not to have stood still had beats in time ever since its start,
// or since a round was sent that found its keys.
func TestNothingButAnUnbrokenRunConfirms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(400*time.Millisecond)).Draw(t, what))
		}
		now, p := at(0), Pauses{}
		times := []Instant{now}
		p, _ = p.OnBeat(now)
		proof := now // when it was sent
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 1).Draw(t, "what") {
			case 0:
				now = now.Add(draw("passes"))
				p, _ = p.OnBeat(now)
				times = append(times, now)
			case 1:
				sent := now
				for range rapid.IntRange(0, 3).Draw(t, "beats") {
					now = now.Add(draw("passes"))
					p, _ = p.OnBeat(now)
					times = append(times, now)
				}
				now = now.Add(draw("answer"))
				p, proof = p.OnRound(sent, now), sent
			}
			if p.Stood(now) {
				continue
			}
			last := proof
			for _, beat := range append(times, now) {
				if beat.Mono > last.Mono {
					require.LessOrEqual(t, beat.Mono-last.Mono, int64(PauseLimit),
						"a beat was missed, and the last proof is older")
					last = beat
				}
			}
		}
	})
}

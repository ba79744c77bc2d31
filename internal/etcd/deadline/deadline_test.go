package deadline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ttl = 10 * time.Second

func at(d time.Duration) Instant { return Instant{Mono: 1000, Wall: 5_000_000}.Add(d) }

func TestEitherClockReachesTheDeadline(t *testing.T) {
	c := NewClaim(at(0), ttl)
	end := at(9900 * time.Millisecond)
	require.Equal(t, end, c.ValidUntil())
	require.True(t, c.Valid(Instant{Mono: end.Mono - 1, Wall: end.Wall - 1}))
	require.False(t, c.Valid(Instant{Mono: end.Mono, Wall: end.Wall - 1}), "the monotonic clock alone")
	require.False(t, c.Valid(Instant{Mono: end.Mono - 1, Wall: end.Wall}), "the wall clock alone: a suspended machine")
	require.False(t, c.Valid(Instant{Mono: end.Mono, Wall: end.Wall - int64(time.Hour)}),
		"a wall clock set back does not help")
	require.Equal(t, time.Duration(1), Instant{Mono: end.Mono - 1, Wall: end.Wall - 5}.Until(end))
}

func TestRenewalCountsFromWhenItWasSent(t *testing.T) {
	c := NewClaim(at(0), ttl).OnRenewal(at(3*time.Second), at(4*time.Second))
	require.Equal(t, at(12900*time.Millisecond), c.ValidUntil())
	require.Equal(t, at(3*time.Second), c.RenewedAt())
	late := c.OnRenewal(at(12*time.Second), at(13*time.Second))
	require.Equal(t, c, late, "answered after the deadline")
}

func TestSuspicionIsClearedByWhatIsSentAfterIt(t *testing.T) {
	c := NewClaim(at(0), ttl).Suspect(at(time.Second), 100*time.Millisecond)
	require.Equal(t, at(1100*time.Millisecond), c.ValidUntil())
	require.Equal(t, c, c.OnRenewal(at(900*time.Millisecond), at(1050*time.Millisecond)), "sent before")
	cleared := c.OnRenewal(at(1020*time.Millisecond), at(1050*time.Millisecond))
	require.Equal(t, at(10920*time.Millisecond), cleared.ValidUntil())
	again := c.Suspect(at(1050*time.Millisecond), 100*time.Millisecond)
	require.Equal(t, c.ValidUntil(), again.ValidUntil(), "a second suspicion gives no more time")
	between := again.OnRenewal(at(1020*time.Millisecond), at(1060*time.Millisecond))
	require.Equal(t, at(1150*time.Millisecond), between.ValidUntil(),
		"an answer to what was sent between them leaves the second")
	require.True(t, between.Suspected())
	require.False(t, between.OnRenewal(at(1055*time.Millisecond), at(1070*time.Millisecond)).Suspected())
	suspected := NewClaim(at(0), ttl).Suspect(at(400*time.Millisecond), 100*time.Millisecond)
	require.Equal(t, at(500*time.Millisecond), suspected.ValidUntil())
}

func TestSuspicionSuspendsAndAnAnswerResumes(t *testing.T) {
	c := NewClaim(at(0), ttl).Suspect(at(time.Second), 100*time.Millisecond)
	require.True(t, c.Valid(at(1099*time.Millisecond)))
	require.False(t, c.Valid(at(1100*time.Millisecond)))
	require.False(t, c.Ended(at(1100*time.Millisecond)), "the lease is not given up")
	require.Equal(t, at(9900*time.Millisecond), c.EndsAt())
	late := c.OnRenewal(at(900*time.Millisecond), at(2*time.Second))
	require.Equal(t, c, late, "sent before the suspicion")
	back := c.OnRenewal(at(1500*time.Millisecond), at(2*time.Second))
	require.True(t, back.Valid(at(2*time.Second)))
	require.Equal(t, c.PeriodNumber()+1, back.PeriodNumber(), "what was begun before is over")
	require.Equal(t, at(11400*time.Millisecond), back.ValidUntil())
	in := c.OnRenewal(at(1020*time.Millisecond), at(1050*time.Millisecond))
	require.Equal(t, c.PeriodNumber(), in.PeriodNumber(), "answered in time, it goes on")
	require.True(t, c.Ended(at(9900*time.Millisecond)))
	require.Equal(t, c, c.OnRenewal(at(1500*time.Millisecond), at(9900*time.Millisecond)), "too late for good")
}

// Whatever happens, a claim ends no later than a lease that etcd last renewed when the latest round that counts
// was sent.
func TestClaimNeverOutlivesTheLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := at(0)
		c := NewClaim(clock, ttl)
		latest := clock // sent by then, and answered in time
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			clock = clock.Add(time.Duration(rapid.Int64Range(0, int64(6*time.Second)).Draw(t, "passes")))
			switch rapid.IntRange(0, 1).Draw(t, "what") {
			case 0:
				sent := clock
				clock = clock.Add(time.Duration(rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "takes")))
				before := c
				c = c.OnRenewal(sent, clock)
				require.Equal(t, before.Ended(clock), c.Ended(clock), "an answer neither ends nor revives a claim")
				if before.Valid(clock) {
					require.Equal(t, before.PeriodNumber(), c.PeriodNumber())
				} else {
					require.Equal(t, c.Valid(clock), c.PeriodNumber() > before.PeriodNumber(), "each period has its number")
				}
				if !before.Ended(clock) {
					latest = sent
				}
			case 1:
				c = c.Suspect(clock, 100*time.Millisecond)
			}
			require.LessOrEqual(t, c.ValidUntil().Mono, latest.Add(ttl).Mono)
		}
	})
}

func TestAKeyThatWasMadeAgainIsAnother(t *testing.T) {
	require.True(t, KeyUnchanged(5, 5))
	require.False(t, KeyUnchanged(5, 0), "gone")
	require.False(t, KeyUnchanged(5, 6), "gone, and there again")
}

package backoff

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/wait"
)

func TestDelaysDouble(t *testing.T) {
	p := Policy{First: time.Second, Last: 5 * time.Second}
	for i, want := range []time.Duration{1, 1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, p.Delay(i, NoJitter))
	}
	require.Equal(t, 800*time.Millisecond, p.Delay(1, 0))
	require.InDelta(t, 1200*time.Millisecond, p.Delay(1, math.Nextafter(1, 0)), 1)
	require.InDelta(t, 6*time.Second, p.Delay(math.MaxInt, math.Nextafter(1, 0)), 1)
	require.Equal(t, time.Second, Policy{First: time.Minute, Last: time.Second}.Delay(1, NoJitter))
	require.Zero(t, Policy{}.Delay(7, 0.7))
}

// Whatever the policy, each delay is within a fifth of the doubled value, and without jitter a longer delay is
// never followed by a shorter one.
func TestDelaysAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{First: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "first")),
			Last: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "last"))}
		n := rapid.IntRange(1, 200).Draw(t, "failures")
		even := p.Delay(n, NoJitter)
		require.Positive(t, even)
		require.LessOrEqual(t, even, p.Last)
		require.GreaterOrEqual(t, p.Delay(n+1, NoJitter), even)
		d := p.Delay(n, rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random"))
		require.InEpsilon(t, float64(even), float64(max(d, 1)), max(0.2001, 2/float64(even)))
	})
}

func TestBackoffCountsFailures(t *testing.T) {
	random := NoJitter
	b := Backoff{Policy: Policy{First: time.Second, Last: time.Minute}, Random: func() float64 { return random }}
	require.Zero(t, b.Failures())
	require.Equal(t, time.Second, b.Next())
	require.Equal(t, 2*time.Second, b.Next())
	require.Equal(t, 2, b.Failures())
	b.Reset()
	random = 0
	require.Equal(t, 800*time.Millisecond, b.Next())
	require.Equal(t, 1, b.Failures())
}

// Of loops that failed together, half retry before the middle of the delay and half after it, spread over two
// fifths of the delay. A loop that always fails makes few attempts.
func TestLoopsGetOutOfStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := Backoff{Policy: Policy{First: 10 * time.Millisecond, Last: time.Second}}
		attempts := 1
		for ; wait.For(ctx, b.Next()); attempts++ {
		}
		require.InDelta(t, 66, attempts, 13, "seven until it waits for a second, and one a second")

		early, least, most := 0, time.Hour, time.Duration(0)
		for range 1000 {
			d := (&Backoff{Policy: Policy{First: time.Second, Last: time.Second}}).Next()
			least, most = min(least, d), max(most, d)
			if d < time.Second {
				early++
			}
		}
		require.InDelta(t, 500, early, 120)
		require.Less(t, least, 850*time.Millisecond)
		require.Greater(t, most, 1150*time.Millisecond)
	})
}

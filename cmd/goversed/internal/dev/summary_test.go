package dev

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestPercentileIsNearestRank(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, ms(i+1))
	}
	require.Equal(t, ms(50), percentile(hundred, 50))
	require.Equal(t, ms(99), percentile(hundred, 99))
	require.Equal(t, ms(100), percentile(hundred, 100))
	require.Equal(t, ms(1), percentile(hundred, 0))
	require.Equal(t, ms(2), percentile([]time.Duration{ms(1), ms(2), ms(3)}, 50))
	require.Equal(t, ms(1), percentile([]time.Duration{ms(1), ms(2)}, 50))
	require.Equal(t, ms(7), percentile([]time.Duration{ms(7)}, 99))
}

func TestSummary(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0 leaders killed, no next leader seen before the end", summarizeKills(nil, 0))
	require.Equal(t, "1 leader killed, no next leader seen before the end", summarizeKills(nil, 1))
	samples := []time.Duration{ms(300), ms(100), ms(200)}
	require.Equal(t, "3 leaders killed; from the kill to the next leader: min 100 ms, p50 200 ms, max 300 ms",
		summarizeKills(samples, 0))
	require.Equal(t, ms(300), samples[0], "the samples are left as they are")
	require.Equal(t, "4 leaders killed; from the kill to the next leader: min 100 ms, p50 200 ms, max 300 ms; 1 not "+
		"followed by a leader before the end",
		summarizeKills(samples, 1))
	var many []time.Duration
	for i := range 200 {
		many = append(many, ms(i+1))
	}
	require.Contains(t, summarizeKills(many, 0), "p99 198 ms, max 200 ms")
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                  "0 ms",
		1234 * time.Microsecond:       "1.2 ms",
		ms(123):                       "123 ms",
		ms(1234):                      "1.23 s",
		ms(12345):                     "12.3 s",
		5*time.Minute + 7*time.Second: "5m07s",
		101*time.Hour + 4*time.Minute + time.Second: "101h04m",
	} {
		require.Equal(t, want, formatDuration(d))
	}
}

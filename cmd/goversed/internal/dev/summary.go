package dev

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// percentile returns the nearest-rank percentile: the smallest sample that at least p percent of all samples do
// not exceed. Samples must be sorted and not empty.
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// summarizeKills returns the last line: the times from a kill to the next leader. Open is the number of kills that no
// leader followed before the end. The p99 is left out below a hundred samples, because it would equal their
// maximum.
func summarizeKills(samples []time.Duration, open int) string {
	kills := formatCount(len(samples)+open, "leader killed", "leaders killed")
	if len(samples) == 0 {
		return kills + ", no next leader seen before the end"
	}
	sorted := slices.Sorted(slices.Values(samples))
	line := fmt.Sprintf("%s; from the kill to the next leader: min %s, p50 %s", kills,
		formatDuration(sorted[0]), formatDuration(percentile(sorted, 50)))
	if len(sorted) >= 100 {
		line += ", p99 " + formatDuration(percentile(sorted, 99))
	}
	line += ", max " + formatDuration(sorted[len(sorted)-1])
	if open > 0 {
		line += fmt.Sprintf("; %d not followed by a leader before the end", open)
	}
	return line
}

func formatCount(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// formatDuration formats a duration for reading: about three digits, and at most eight characters up to 999 hours.
func formatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

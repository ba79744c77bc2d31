// Package sample holds measured values and what is said of them.
package sample

import (
	"math"
	"slices"
	"time"
)

// Series is one thing measured many times.
type Series struct {
	// Name says what was measured: short, for a table and a plot's legend.
	Name string
	// Unit of Values: "ns", "ms".
	Unit string
	// Values are in the order in which they were taken.
	Values []float64
}

// Millis makes an empty series in milliseconds.
func Millis(name string) *Series { return &Series{Name: name, Unit: "ms"} }

// Add takes one duration into a series in milliseconds.
func (s *Series) Add(d time.Duration) {
	s.Values = append(s.Values, float64(d)/float64(time.Millisecond))
}

// P is the value that the fraction q of the series does not exceed (nearest
// rank): P(0.5) is the median, P(1) the largest. NaN for an empty series.
func (s *Series) P(q float64) float64 {
	if len(s.Values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(s.Values))
	rank := int(math.Ceil(q * float64(len(v))))
	return v[min(max(rank-1, 0), len(v)-1)]
}

// Median is P(0.5).
func (s *Series) Median() float64 { return s.P(0.5) }

// Max is the largest value.
func (s *Series) Max() float64 { return s.P(1) }

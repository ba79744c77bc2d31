// Package sample holds measured values and computes their quantiles.
package sample

import (
	"math"
	"slices"
	"time"
)

// Series holds repeated measurements of one quantity.
type Series struct {
	// Name describes the quantity, briefly enough for a table and a plot's legend.
	Name string
	// Unit is the unit of Values: "ns", "ms".
	Unit string
	// Values are in the order of measurement.
	Values []float64
}

// Millis returns an empty series in milliseconds.
func Millis(name string) *Series { return &Series{Name: name, Unit: "ms"} }

// Add appends one duration to a series in milliseconds.
func (s *Series) Add(d time.Duration) {
	s.Values = append(s.Values, float64(d)/float64(time.Millisecond))
}

// P returns the q-quantile by nearest rank, the smallest value that at least the fraction q of the series does
// not exceed: P(0.5) is the median, P(1) the largest value. It returns NaN for an empty series.
func (s *Series) P(q float64) float64 {
	if len(s.Values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(s.Values))
	rank := int(math.Ceil(q * float64(len(v))))
	return v[min(max(rank-1, 0), len(v)-1)]
}

// Median returns P(0.5).
func (s *Series) Median() float64 { return s.P(0.5) }

// Max returns the largest value.
func (s *Series) Max() float64 { return s.P(1) }

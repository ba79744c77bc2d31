package processor

import "time"

// Backoff is how long to wait after failures: Min after the first, twice as long after each
// further one, up to Max; of each wait, a random part of up to a quarter is left out, so that
// many that failed together do not come back together. The zero value is from 100 ms to 30 s.
type Backoff struct {
	Min, Max time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Min == 0 {
		b.Min = min(100*time.Millisecond, max(b.Max, time.Nanosecond))
		if b.Max == 0 {
			b.Min = 100 * time.Millisecond
		}
	}
	if b.Max == 0 {
		b.Max = max(30*time.Second, b.Min)
	}
	return b
}

func (b Backoff) validate(bad func(string) error) error {
	switch {
	case b.Min < 0 || b.Max < 0:
		return bad("Backoff.Min or Max is negative; leave it 0 for the default")
	case b.Max != 0 && b.Min > b.Max:
		return bad("Backoff.Min is longer than Max; leave Max 0 for 30 s")
	}
	return nil
}

// delay is how long to wait after so many failures in a row, from 1 up. random is from 0 to 1.
func (b Backoff) delay(failures int, random float64) time.Duration {
	d := b.Min
	for ; failures > 1 && d < b.Max; failures-- {
		if d > b.Max/2 {
			d = b.Max
			break
		}
		d *= 2
	}
	d = min(d, b.Max)
	return d - time.Duration(random*float64(d)/4)
}

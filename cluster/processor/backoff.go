package processor

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/internal/backoff"
)

// Backoff determines the pauses after failures. The first pause is Min, and each further one is twice as long,
// up to Max. Each pause is randomly up to a fifth shorter or longer, so that processors that failed together do
// not retry together. The zero value means 100 ms to 30 s.
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

// Delay returns the pause after the given number of failures in a row, counted from 1.
func (b Backoff) Delay(failures int) time.Duration {
	return b.withDefaults().policy().Delay(failures, rand.Float64())
}

// policy returns the policy that implements the backoff.
func (b Backoff) policy() backoff.Policy { return backoff.Policy{First: b.Min, Last: b.Max} }

// Validate returns an error that matches ErrBadConfig if Min or Max is negative, or Min is longer than Max.
func (b Backoff) Validate() error {
	switch {
	case b.Min < 0 || b.Max < 0:
		return fmt.Errorf("%w: Backoff.Min or Max is negative; leave it 0 for the default", ErrBadConfig)
	case b.Max != 0 && b.Min > b.Max:
		return fmt.Errorf("%w: Backoff.Min is longer than Max; leave Max 0 for 30 s", ErrBadConfig)
	}
	return nil
}

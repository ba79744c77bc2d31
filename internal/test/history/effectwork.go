package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// EffectWork configures the effects that nodes run: one new effect for each period, tried by all nodes at its
// start.
type EffectWork struct {
	// From is the start of the first period, the same on all nodes.
	From Instant
	// Every is the length of a period.
	Every time.Duration
	// Takes limits the duration of an effect's function.
	Takes time.Duration
}

// name returns the name of a period's effect.
func (w EffectWork) name(period int) string { return fmt.Sprint("effect-", period) }

// period returns the number of the present period.
func (w EffectWork) period() int { return int(Now().Sub(w.From) / w.Every) }

// attemptsAtOnce limits the attempts that one node has under way at once.
const attemptsAtOnce = 8

// Work tries the effect of each period once until ctx ends. It does not wait for the effect of the period
// before unless attemptsAtOnce are under way; then it skips periods. One of ten functions fails. Work blocks
// until all attempts have ended.
func (e *Effects) Work(ctx context.Context, w EffectWork, rnd *rand.Rand) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, attemptsAtOnce)
	for period := w.period() + 1; ; period = max(period+1, w.period()) {
		pauseFor(ctx, w.From.Add(time.Duration(period)*w.Every).Sub(Now()))
		if ctx.Err() != nil {
			return
		}
		takes, fails := time.Duration(rnd.Int64N(int64(w.Takes)+1)), rnd.IntN(10) == 0
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			e.Once(ctx, w.name(period), takes, fails)
		})
	}
}

// ResolveAll resolves the effects of all periods so far; see [Effects.Resolve]. It blocks until all have taken
// place or ctx ends.
func (e *Effects) ResolveAll(ctx context.Context, w EffectWork) error {
	slots := make(chan struct{}, attemptsAtOnce)
	last := w.period()
	errs := make([]error, last+1)
	var wg sync.WaitGroup
	for period := range errs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[period] = e.Resolve(ctx, w.name(period), 0)
		})
	}
	wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if left := len(errs); left > 0 {
		return fmt.Errorf("%d of %d effects are not resolved, among them: %w", left, last+1,
			errors.Join(errs[:min(left, 3)]...))
	}
	return nil
}

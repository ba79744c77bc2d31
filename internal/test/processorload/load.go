package processorload

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

const (
	batchSize   = 10
	poisonEvery = 37
	commands    = 40
	patience    = 5 * time.Minute
)

// World is where the processor runs.
type World struct {
	// Name is the processor's name, Manager is the operator's checkpoint, and Open returns one for a process.
	Name    string
	Manager processor.Manager
	Open    func() processor.Checkpoint
	// Apply makes the effect of an event, in the transaction of ctx if there is one. Otherwise it makes none once
	// killed is set.
	Apply func(ctx context.Context, event int, killed *atomic.Bool) error
	// Effects returns the effects so far, in order.
	Effects func() ([]int, error)
	// Undoes is set if a handler's effects and the position are one transaction.
	Undoes bool
	// Seed determines the commands and the kills.
	Seed uint64
}

// Run runs the processor and the operator, and returns what the check finds.
func Run(t *testing.T, w World) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &crew{world: w, seat: make(chan struct{}, 1)}
	c.seat <- struct{}{}
	o := &operator{fleet: c, ctx: ctx, m: w.Manager, name: w.Name, random: rand.New(rand.NewPCG(w.Seed, 1)),
		dropped: map[int]bool{}}
	growing, stopGrowth := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { c.grow(growing) })
	c.start()
	c.start()
	err := o.work()
	stopGrowth()
	beside.Wait()
	if err == nil {
		err = o.finish()
	}
	c.stop()
	if err != nil {
		return err
	}
	effects, err := w.Effects()
	require.NoError(t, err)
	h := o.history(effects)
	t.Logf("%s: %d effects of %d events, %d leaders, %d rewinds, %d events dropped, seed %d", w.Name, len(effects), h.last,
		c.tokens.Load(), len(o.rewinds), len(o.dropped), w.Seed)
	return h.check()
}

// grow adds events.
func (c *crew) grow(ctx context.Context) {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.source.last.Add(3)
			c.source.Notify()
		case <-ctx.Done():
			return
		}
	}
}

// history returns what the check needs.
func (o *operator) history(effects []int) history {
	h := history{effects: effects, last: o.lastEvent(), rewinds: o.rewinds, dropped: o.dropped, parked: map[int]bool{}}
	for e := poisonEvery; e <= h.last; e += poisonEvery {
		h.parked[e] = true
	}
	if !o.undoes() {
		h.repeats = batchSize
	}
	return h
}

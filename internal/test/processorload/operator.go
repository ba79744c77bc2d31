package processorload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/wait"
)

// fleet is the processes, of which one leads.
type fleet interface {
	// effects returns the effects so far, in order.
	effects() ([]int, error)
	// undoes reports whether a handler's effects and the position are one transaction.
	undoes() bool
	// lastEvent returns the last event that there is.
	lastEvent() int
	// heal makes an event succeed from now on.
	heal(event int)
	// kill ends the leader where it is and starts another process; with onlyLead, it only takes the lead.
	kill(onlyLead bool)
}

// operator makes one request after the other.
type operator struct {
	fleet
	ctx     context.Context
	m       processor.Manager
	name    string
	random  *rand.Rand
	rewinds []rewind
	dropped map[int]bool
}

// work makes requests of all kinds. A leader is killed during most of them.
func (o *operator) work() error {
	kinds := []func() error{o.pause, o.pause, o.rewind, o.retry, o.retry, o.drop, o.unfence, o.list}
	for i := range commands {
		if err := o.progress(); err != nil {
			return err
		}
		var killing sync.WaitGroup
		if o.random.IntN(4) > 0 {
			onlyLead := o.undoes() && o.random.IntN(2) == 0
			killing.Go(func() { o.kill(onlyLead) })
		}
		err := kinds[i%len(kinds)]()
		killing.Wait()
		if err != nil {
			return fmt.Errorf("command %d: %w", i, err)
		}
	}
	return nil
}

// progress waits until some events are handled.
func (o *operator) progress() error {
	effects, err := o.effects()
	if err != nil {
		return err
	}
	return o.await("events are handled", func() (bool, error) {
		now, err := o.effects()
		return len(now) > len(effects)+o.random.IntN(3*batchSize), err
	})
}

func (o *operator) await(what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !wait.For(o.ctx, 5*time.Millisecond) {
			s, err := o.m.Look(context.WithoutCancel(o.ctx), o.name)
			return fmt.Errorf("never so: %s; %+v, report %+v: %w", what, s, s.Report, err)
		}
	}
}

// pause checks that an acknowledged pause lasts.
func (o *operator) pause() error {
	if err := processor.Pause(o.ctx, o.m, o.name, processor.PauseRequest{By: "load"}); err != nil {
		return err
	}
	before, err := o.effects()
	if err != nil {
		return err
	}
	if o.random.IntN(2) == 0 { // the next leader is paused as well
		o.kill(false)
	}
	s, err := o.m.Look(o.ctx, o.name)
	if err != nil {
		return err
	}
	if o.random.IntN(3) == 0 {
		if err := o.rewindTo(s); err != nil {
			return err
		}
	}
	if err := o.await("the next leader reports", func() (bool, error) {
		s, err := o.m.Look(o.ctx, o.name)
		return err == nil && s.ReportCurrent() && s.Report.Paused, err
	}); err != nil {
		return err
	}
	grown := o.lastEvent() + 3*batchSize
	if err := o.await("the load goes on", func() (bool, error) { return o.lastEvent() > grown, nil }); err != nil {
		return err
	}
	after, err := o.effects()
	if err == nil {
		err = checkPause(before, after)
	}
	return errors.Join(err, processor.Resume(o.ctx, o.m, o.name, processor.PauseRequest{By: "load"}))
}

func (o *operator) rewind() error {
	s, err := o.m.Look(o.ctx, o.name)
	if err != nil {
		return err
	}
	return o.rewindTo(s)
}

func (o *operator) rewindTo(s processor.Standing) error {
	now, err := strconv.Atoi("0" + string(s.Position))
	if err != nil {
		return err
	}
	to := max(0, now-o.random.IntN(30*batchSize))
	if now < 500 && o.random.IntN(3) == 0 {
		to = 0
	}
	return o.rewindAt(to)
}

// rewindAt makes the processor continue after an event; 0 is the beginning.
func (o *operator) rewindAt(to int) error {
	at := position(to)
	if to == 0 {
		at = ""
	}
	// A parked event to which the processor comes again is handled then, or retried now, but not both.
	parked, err := o.pick()
	if err != nil {
		return err
	}
	o.heal(parked)
	before, err := o.effects()
	if err != nil {
		return err
	}
	if err := o.m.Rewind(o.ctx, o.name, at); err != nil {
		return err
	}
	if parked > 0 && o.random.IntN(2) == 0 {
		err := o.m.RequestRetry(o.ctx, o.name, position(parked))
		if err != nil && !errors.Is(err, processor.ErrNotParked) {
			return err
		}
	}
	after, err := o.effects()
	o.rewinds = append(o.rewinds, rewind{to, len(before), len(after)})
	return err
}

// pick returns a parked event, 0 if there is none.
func (o *operator) pick() (event int, err error) {
	parked, err := o.m.Parked(o.ctx, o.name)
	if err != nil || len(parked) == 0 {
		return 0, err
	}
	return strconv.Atoi(string(parked[o.random.IntN(len(parked))].Position))
}

// retry retries an event, which may fail again.
func (o *operator) retry() error {
	e, err := o.pick()
	if err != nil || e == 0 {
		return err
	}
	if o.random.IntN(3) > 0 {
		o.heal(e)
	}
	err = processor.Retry(o.ctx, o.m, o.name, position(e))
	// A replay may come to the event, even just before it is healed.
	if errors.Is(err, processor.ErrNotParked) || errors.Is(err, processor.ErrRetryFailed) {
		return nil
	}
	return err
}

func (o *operator) drop() error {
	e, err := o.pick()
	if err != nil || e == 0 {
		return err
	}
	o.dropped[e] = true
	return o.m.Forget(o.ctx, o.name, position(e))
}

func (o *operator) unfence() error { return o.m.Unfence(o.ctx, o.name) }

func (o *operator) list() error {
	found, _, err := o.m.List(o.ctx, processor.Query{})
	if err == nil && len(found) == 0 {
		err = errors.New("the list is empty")
	}
	return err
}

// finish retries all parked events, and waits until all events are done.
func (o *operator) finish() error {
	for e := poisonEvery; e <= o.lastEvent(); e += poisonEvery {
		o.heal(e)
	}
	last := position(o.lastEvent())
	err := o.await("all events are passed", func() (bool, error) {
		s, err := o.m.Look(o.ctx, o.name)
		return err == nil && s.Position == last, err
	})
	if err != nil {
		return err
	}
	parked, err := o.m.Parked(o.ctx, o.name)
	for _, p := range parked {
		if err == nil {
			if err = processor.Retry(o.ctx, o.m, o.name, p.Position); errors.Is(err, processor.ErrNotParked) {
				err = nil
			}
		}
	}
	return err
}

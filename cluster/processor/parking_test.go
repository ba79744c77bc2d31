package processor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// parkings records the calls of OnPark.
type parkings struct {
	mu     sync.Mutex
	events []int
	errs   []error
	fail   func(n int) error
}

func (p *parkings) park(_ context.Context, e processor.Event[int], err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events, p.errs = append(p.events, e.Value), append(p.errs, err)
	if p.fail != nil {
		return p.fail(len(p.events))
	}
	return nil
}

func TestPoisonIsParked(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, _ int) error {
		switch e {
		case 4, 5:
			return errOops
		case 9:
			panic("at the disco")
		case 11:
			return errors.Join(errOops, processor.ErrPoison)
		}
		return nil
	}}
	parked, checkpoint := &parkings{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 12}, Handler: tries.handle,
		Checkpoint: checkpoint,
		BatchSize:  5, MaxAttempts: 3, OnPark: parked.park})
	eventually(t, func() bool { return p.Status().Position == "12" }, "it goes on past them")
	end()
	require.Equal(t, []int{1, 2, 3, 6, 7, 8, 10, 12}, tries.all(), "in order, and once")
	require.Equal(t, []int{4, 5, 9, 11}, parked.events)
	require.Equal(t, errOops, parked.errs[0], "as the handler returned it")
	var panicked *processor.PanicError
	require.ErrorAs(t, parked.errs[2], &panicked)
	require.Equal(t, "at the disco", panicked.Value)
	require.Contains(t, string(panicked.Stack), "parking_test.go")
	require.Equal(t, map[int]int{4: 3, 5: 3, 9: 3, 11: 1}, map[int]int{4: tries.of(4), 5: tries.of(5), 9: tries.of(9),
		11: tries.of(11)})

	records, err := checkpoint.Parked(t.Context(), "it")
	require.NoError(t, err)
	require.Len(t, records, 4)
	r := records[0]
	require.WithinDuration(t, time.Now(), r.Time, patience)
	r.Time = time.Time{}
	require.Equal(t, processor.Parked{Position: "4", After: "3", Error: "oops", Attempts: 3, Token: p.Status().Token}, r)
	require.Equal(t, "panic: at the disco", records[2].Error)
	s := p.Status()
	require.EqualValues(t, 4, s.Parked)
	require.EqualValues(t, 8, s.Handled)
	require.EqualValues(t, 10, s.Retries)
	require.Zero(t, s.Attempts)
	require.Contains(t, s.LastError, "oops")
}

// An event that could not be parked is not skipped.
func TestParkingThatFails(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, _ int) error {
		if e == 2 {
			return errOops
		}
		return nil
	}}
	parked := &parkings{fail: func(n int) error {
		switch n {
		case 1:
			return errOops
		case 2:
			panic(errOops)
		}
		return nil
	}}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle,
		Checkpoint:  &processor.Memory{},
		MaxAttempts: 1, OnPark: parked.park})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	end()
	require.Equal(t, []int{2, 2, 2}, parked.events)
	require.Equal(t, []int{1, 3}, tries.all())
	require.Equal(t, 1, tries.of(2), "it is not tried again meanwhile")
	require.EqualValues(t, 1, p.Status().Parked)
	require.EqualValues(t, 2, p.Status().Failures)
}

// A handler that uses a checkpoint of its own and is refused by it has failed like any other. The term goes on.
func TestHandlerThatIsFencedItself(t *testing.T) {
	t.Parallel()
	for _, wrong := range []error{processor.ErrFenced, processor.ErrRefused} {
		tries := &attempts{fail: func(e, _ int) error {
			if e == 3 {
				return wrong
			}
			return nil
		}}
		parked := &parkings{fail: func(n int) error {
			if n == 1 {
				return wrong
			}
			return nil
		}}
		var terms atomic.Int64
		p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 5}, Handler: tries.handle,
			Checkpoint: &processor.Memory{}, MaxAttempts: 3,
			OnPark: parked.park, LeaderLock: processor.LockFunc(func(ctx context.Context, fn func(context.Context,
				int64) error) error {
				return fn(ctx, terms.Add(1))
			})})
		eventually(t, func() bool { return p.Status().Position == "5" }, "it goes on")
		require.Equal(t, 3, tries.of(3), wrong)
		require.EqualValues(t, 1, terms.Load(), wrong)
		require.EqualValues(t, 1, p.Status().Parked)
	}
}

package processor_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// leaving is a source that sometimes leaves its goroutine or panics.
type leaving struct {
	numbers
	reads, lags atomic.Int64
}

func (l *leaving) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	switch l.reads.Add(1) {
	case 1, 3:
		runtime.Goexit()
	case 2:
		panic("at the disco")
	}
	return l.numbers.Read(ctx, after, limit)
}

func (l *leaving) Lag(context.Context, processor.Position) (int64, error) {
	l.lags.Add(1)
	runtime.Goexit()
	return 0, nil
}

// A handler that leaves its goroutine or panics has failed, and its event is tried again. A source that does so
// is read again.
func TestFunctionsThatLeave(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, n int) error {
		if e == 3 && n == 1 || e == 5 {
			runtime.Goexit()
		}
		return nil
	}}
	var parked atomic.Int64
	source := &leaving{numbers: numbers{last: 6}}
	p, end := run(t, processor.Config[int]{Name: "it", Source: source, Handler: tries.handle,
		Checkpoint: &processor.Memory{}, BatchSize: 4, MaxAttempts: 3,
		OnPark: func(_ context.Context, e processor.Event[int], err error) error {
			if parked.Add(1) == 1 {
				runtime.Goexit()
			}
			assert.ErrorContains(t, err, "runtime.Goexit")
			assert.Equal(t, 5, e.Value)
			return nil
		}})
	eventually(t, func() bool { return p.Status().Position == "6" }, "it goes on")
	eventually(t, func() bool { return source.lags.Load() > 0 }, "it is asked for the lag")
	end()
	require.Equal(t, []int{1, 2, 3, 4, 6}, tries.all())
	require.EqualValues(t, 2, parked.Load())
}

package processor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
)

// BenchmarkEvents measures one event with a handler that does nothing and a checkpoint in memory. The results
// with and without a leader lock should be equal.
func BenchmarkEvents(b *testing.B) {
	for name, lead := range map[string]processor.LeaderLock{"alone": nil, "lock": processor.Lock(&lock.Memory{}, "it")} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			left := b.N
			p, err := processor.New(processor.Config[int]{Name: "it", Source: endless{}, Checkpoint: &processor.Memory{},
				LeaderLock: lead,
				Handler: func(context.Context, processor.Event[int]) error {
					if left--; left == 0 {
						cancel()
					}
					return nil
				}})
			require.NoError(b, err)
			b.ReportAllocs()
			require.NoError(b, p.Run(ctx))
		})
	}
}

// endless is a source that repeats the same events.
type endless struct{}

var again = func() (events []processor.Event[int]) {
	for i := range 100 {
		events = append(events, processor.Event[int]{Position: processor.Position([]byte{byte('0' + i/10), byte('0' +
			i%10)}), Value: i})
	}
	return events
}()

func (endless) Read(context.Context, processor.Position, int) ([]processor.Event[int], error) {
	return again, nil
}

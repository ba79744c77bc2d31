package history

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
)

// TestHoldsAreSampled checks two nodes that hold locks of one registry, and two with registries that are
// independent.
func TestHoldsAreSampled(t *testing.T) {
	for name, apart := range map[string]bool{"one registry": false, "two registries": true} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			rec := NewRecorder(&text, "test")
			one := &lock.Memory{}
			other := one
			if apart {
				other = &lock.Memory{}
			}
			a, b := rec.Locks("a", one), rec.Locks("b", other)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			shared, err := a.Acquire(ctx, LockRequest{Name: "it", Shared: true})
			require.NoError(t, err)
			both, err := b.Acquire(ctx, LockRequest{Name: "it", Shared: true, Try: true})
			require.NoError(t, err)
			require.NotNil(t, both)
			pauseFor(ctx, 10*time.Millisecond)
			require.NoError(t, shared.Release(ctx))
			require.NoError(t, both.Release(ctx))
			first, err := a.Acquire(ctx, LockRequest{Name: "it"})
			require.NoError(t, err)
			second, err := b.Acquire(ctx, LockRequest{Name: "it", Try: true})
			require.NoError(t, err)
			require.Equal(t, apart, second != nil)
			pauseFor(ctx, 10*time.Millisecond)
			require.NoError(t, first.Release(ctx))
			if apart {
				require.NoError(t, second.Release(ctx))
			}
			require.NoError(t, b.AcquireEach(ctx, "it"))
			require.NoError(t, rec.Stop())
			h, err := Read(&text)
			require.NoError(t, err)
			v := Check(h, Limits{})
			require.Equal(t, apart, len(v.FindingsOf(Overlap)) > 0, "%v", v)
			require.Equal(t, apart, !v.OK(), "%v", v)
			require.Equal(t, 2, v.Seen.Shared)
			require.GreaterOrEqual(t, v.Seen.Grants, 4)
		})
	}
}

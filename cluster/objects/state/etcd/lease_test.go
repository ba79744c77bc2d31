package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A lease is replaced as soon as either clock says that it no longer lasts for the retention. In a suspended machine
// only the wall clock goes on.
func TestALeaseIsUsedUntilEitherClockEndsIt(t *testing.T) {
	t.Parallel()
	l, ctx := newReplyLeases(etcdtest.Client(t), time.Hour), etcdtest.Context(t)
	first, err := l.currentLease(ctx, 0)
	require.NoError(t, err)
	again, err := l.currentLease(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, first, again)
	for name, end := range map[string]*time.Time{"monotonic": &l.until, "wall": &l.wallUntil} {
		*end = end.Add(-time.Hour)
		next, err := l.currentLease(ctx, 0)
		require.NoError(t, err)
		require.NotEqual(t, again, next, "the %s clock has reached the end", name)
		again = next
	}
}

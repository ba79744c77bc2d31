package automation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Items that were executed do not take the places of those that fail. Beyond these places an item is not parked, and
// that is an error.
func TestListRemembersFailures(t *testing.T) {
	t.Parallel()
	source, err := NewList(ListConfig[int]{
		List: func(context.Context, string, int) ([]Item[int], error) { return nil, nil },
		Due:  func(context.Context, Item[int]) (bool, error) { return true, nil }})
	require.NoError(t, err)
	l := source.(*list[int])
	key := func(kind string, i int) string { return fmt.Sprintf("%s-%05d", kind, i) }
	for i := range maxDone + 10 {
		require.NoError(t, l.storeResult(key("done", i), Result{Outcome: Done}))
	}
	for i := range maxFailing {
		require.NoError(t, l.storeResult(key("parked", i), Result{Outcome: Parked, Failures: 1, Err: context.Canceled}))
	}
	for i := range maxFailing {
		_, ok := l.reserveItem(Item[int]{Key: key("parked", i)}, time.Now())
		require.False(t, ok, "it stays parked")
	}
	require.Len(t, l.done, maxDone)
	require.ErrorIs(t, l.storeResult("one more", Result{Outcome: Parked, Err: context.Canceled}), errTooManyFailing)
	require.NoError(t, l.storeResult("one more", Result{Outcome: Failed, Err: context.Canceled}))

	require.NoError(t, l.storeResult(key("parked", 0), Result{Outcome: Done}), "it was repaired")
	require.Len(t, l.failing, maxFailing-1)
	l.endPass()
	l.endPass()
	require.Empty(t, l.failing, "none is listed any more")
	require.Empty(t, l.done)
}

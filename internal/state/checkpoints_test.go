package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No name or position makes a key that lies under another one's keys, or in the range that all nodes watch.
func TestCheckpointKeys(t *testing.T) {
	t.Parallel()
	k, err := NewKeys("/goverse")
	require.NoError(t, err)
	require.Equal(t, "/goverse/work/checkpoints/orders%2F3", k.Checkpoint("orders/3"))
	require.Equal(t, "/goverse/work/parked/orders%2F3/0%2F16B3748", k.ParkedEvent("orders/3", "0/16B3748"))
	require.False(t, strings.HasPrefix(k.ParkedEvent("a/b", "1"), k.Parked("a")))
	require.False(t, strings.HasPrefix(k.ParkedEvent("a", "../b/1"), k.Parked("a")+"../"))
	require.Greater(t, k.Checkpoint("a"), k.RangeEnd())
}

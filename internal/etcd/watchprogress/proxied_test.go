package watchprogress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWayBehindAProxy(t *testing.T) {
	y, again := ProxyState{}.OnJoined()
	require.True(t, again)
	require.True(t, y.NeedsOwnRange())
	require.True(t, y.ExpectsProgress(), "not known yet")
	_, again = y.OnJoined()
	require.False(t, again, "once")
	y, again = y.OnNoProgress()
	require.False(t, again, "no other watch would do better")
	require.False(t, y.ExpectsProgress())
	y = y.OnRead()
	require.True(t, y.ExpectsProgress(), "the next one is asked again")
	y, again = y.OnNoProgress()
	require.False(t, again)
	require.True(t, y.OnProgress().ExpectsProgress())
}

// One of two endpoints may have a dead stream: another watch is opened, and nothing is read anew.
func TestADeadWatchIsOpenedAgainOnce(t *testing.T) {
	y, again := ProxyState{}.OnNoProgress()
	require.True(t, again)
	require.True(t, y.NeedsOwnRange())
	_, again = y.OnNoProgress()
	require.False(t, again)
	_, again = y.OnProgress().OnNoProgress()
	require.True(t, again)
}

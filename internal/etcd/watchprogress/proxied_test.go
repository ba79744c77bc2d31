package watchprogress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWayBehindAProxy(t *testing.T) {
	y, again := ProxyState{}.Joined()
	require.True(t, again)
	require.True(t, y.Alone())
	require.True(t, y.Reports(), "not known yet")
	_, again = y.Joined()
	require.False(t, again, "once")
	y, again = y.Unreported()
	require.False(t, again, "no other watch would do better")
	require.False(t, y.Reports())
	y = y.Read()
	require.True(t, y.Reports(), "the next one is asked again")
	y, again = y.Unreported()
	require.False(t, again)
	require.True(t, y.Reported().Reports())
}

// One of two endpoints may have a dead stream: another watch is opened, and nothing is read anew.
func TestADeadWatchIsOpenedAgainOnce(t *testing.T) {
	y, again := ProxyState{}.Unreported()
	require.True(t, again)
	require.True(t, y.Alone())
	_, again = y.Unreported()
	require.False(t, again)
	_, again = y.Reported().Unreported()
	require.True(t, again)
}

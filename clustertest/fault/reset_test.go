package fault

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReset(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	send(t, client, "before")
	hears(t, target, "before")
	r.Reset(Both)
	require.ErrorIs(t, ends(t, client), syscall.ECONNRESET)
	require.ErrorIs(t, ends(t, target), syscall.ECONNRESET)

	client, target = pair(t, r, h)
	send(t, client, "after")
	hears(t, target, "after")
}

func TestResetOneWay(t *testing.T) {
	for _, way := range []Direction{ToTarget, FromTarget} {
		t.Run(way.String(), func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			notified, other := target, client
			if way == FromTarget {
				notified, other = client, target
			}
			r.Reset(way)
			require.ErrorIs(t, ends(t, notified), syscall.ECONNRESET)
			quiet(t, other)
			send(t, other, "are you there?")
			require.ErrorIs(t, ends(t, other), syscall.ECONNRESET)
		})
	}
}

// TestResetWhatIsHeldBack checks that a reset applies to the connections, not to the line. It takes effect even
// if nothing is delivered, and leaves nothing behind.
func TestResetWhatIsHeldBack(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	r.Blackhole(Both)
	late := connect(t, r.Address())
	send(t, client, "held")
	holds(t, r, ToTarget, 4)
	require.Eventually(t, func() bool { return r.Connections() == 2 }, patience, time.Millisecond)
	r.Reset(Both)
	require.ErrorIs(t, ends(t, client), syscall.ECONNRESET)
	require.ErrorIs(t, ends(t, target), syscall.ECONNRESET)
	require.ErrorIs(t, ends(t, late), syscall.ECONNRESET)
	require.Eventually(t, func() bool { return r.Connections() == 0 }, patience, time.Millisecond)
}

package fault

import (
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlackholeOneWay(t *testing.T) {
	for _, way := range []Direction{ToTarget, FromTarget} {
		t.Run(way.String(), func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			from, to := client, target // in the direction of the fault
			if way == FromTarget {
				from, to = target, client
			}
			send(t, from, "before")
			hears(t, to, "before")

			r.Blackhole(way)
			send(t, from, "held")
			holds(t, r, way, 4)
			quiet(t, to)
			send(t, to, "the other way")
			hears(t, from, "the other way")

			require.NoError(t, r.Heal())
			hears(t, to, "held")
			send(t, from, "after")
			hears(t, to, "after")
			require.Equal(t, 1, r.Connections(), "the same connection")
		})
	}
}

func TestBlackholeHoldsTheEnd(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(*net.TCPConn)
		seen error
	}{
		"closed": {func(c *net.TCPConn) { _ = c.Close() }, io.EOF},
		"reset":  {resetConn, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			end.end(client)
			require.ErrorIs(t, ends(t, target), end.seen, "without the fault it is seen")

			client, target = pair(t, r, h)
			r.Blackhole(Both)
			end.end(client)
			quiet(t, target)
			require.NoError(t, r.Heal())
			require.ErrorIs(t, ends(t, target), end.seen)
		})
	}
}

func TestBlackholeKeepsNewConnectionsSilent(t *testing.T) {
	r, h := relayed(t)
	r.Blackhole(ToTarget)
	client := connect(t, r.Address())
	send(t, client, "hello")
	quiet(t, client)
	require.Empty(t, h.accepted, "the target hears of no connection")
	require.NoError(t, r.Heal())
	hears(t, h.accept(t), "hello")

	// In the other direction the target gets the connection, but nothing from the target arrives.
	r.Blackhole(FromTarget)
	client = connect(t, r.Address())
	target := h.accept(t)
	send(t, target, "hello")
	quiet(t, client)
	require.NoError(t, r.Heal())
	hears(t, client, "hello")
}

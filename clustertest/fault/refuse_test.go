package fault

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefuse(t *testing.T) {
	r, h := relayed(t)
	address := r.Address()
	for range 20 {
		client, target := pair(t, r, h)
		send(t, client, "hello")
		hears(t, target, "hello")

		r.Refuse()
		require.Error(t, ends(t, client), "closed")
		require.Error(t, ends(t, target), "closed")
		require.Zero(t, r.Connections())
		for range 10 {
			_, err := net.Dial("tcp", address)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
		_, err := net.Listen("tcp", address)
		require.ErrorIs(t, err, syscall.EADDRINUSE, "nobody else gets the port meanwhile")
		r.Refuse() // refusing twice equals once

		require.NoError(t, r.Heal())
		require.Equal(t, address, r.Address())
		_, err = net.Listen("tcp", address)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
}

func TestRefuseIsOfOneRelayOnly(t *testing.T) {
	r, h := relayed(t)
	other, err := NewRelay(h.address)
	require.NoError(t, err)
	defer other.Close()
	client, target := pair(t, other, h)
	r.Refuse()
	send(t, client, "still here")
	hears(t, target, "still here")
}

// TestRefuseAmongOtherFaults checks that other faults last until Heal, even if the port refuses in between.
func TestRefuseAmongOtherFaults(t *testing.T) {
	r, h := relayed(t)
	client, _ := pair(t, r, h)
	r.Blackhole(Both)
	send(t, client, "held")
	holds(t, r, ToTarget, 4)
	r.Refuse()
	require.Error(t, ends(t, client), "closed although nothing is delivered")
	_, err := net.Dial("tcp", r.Address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, r.Heal())
	client, target := pair(t, r, h)
	send(t, client, "anew")
	hears(t, target, "anew")
}

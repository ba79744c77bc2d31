package peer

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/port"
)

func TestAddressesRefused(t *testing.T) {
	for _, c := range []struct{ advertise, listen, remedy string }{
		{"", "", "set it to the host:port"},
		{"localhost", "", "host:port"},
		{"localhost:", "", "number from 0 to 65535"},
		{"localhost:http", "", "number from 0 to 65535"},
		{"localhost:65536", "", "number from 0 to 65535"},
		{"localhost:-1", "", "number from 0 to 65535"},
		{"localhost:047", "", "number from 0 to 65535"},
		{"::1:80", "", "host:port"},
		{":47001", "", "set AdvertiseAddress"},
		{"0.0.0.0:47001", "", "set AdvertiseAddress"},
		{"[::]:47001", "", "set AdvertiseAddress"},
		{"[::ffff:0.0.0.0]:47001", "", "set AdvertiseAddress"},
		{"", ":47001", "set AdvertiseAddress"},
		{"", "0.0.0.0:0", "set AdvertiseAddress"},
		{"local host:1", "", "valid host"},
		{"localhost\n:1", "", "valid host"},
		{"host\x00:1", "", "valid host"},
		{"a/b:1", "", "valid host"},
		{"a..b:1", "", "valid host"},
		{"[fe80::1%a/b]:1", "", "valid host"},
		{"256.0.0.1:1", "", "valid host"},
		{"0:1", "", "valid host"},
		{"h\u00f6st:1", "", "valid host"},
		{"localhost:1", "nowhere", "ListenAddress"},
		{"localhost:1", "bad host:1", "ListenAddress"},
	} {
		cfg := Config{AdvertiseAddress: c.advertise, ListenAddress: c.listen}
		err := cfg.Validate()
		require.ErrorIs(t, err, ErrBadAddress, "%+v", cfg)
		require.Contains(t, err.Error(), c.remedy)
		require.NotContains(t, err.Error(), "\n")
		_, err = NewNode(cfg)
		require.ErrorIs(t, err, ErrBadAddress, "%+v", cfg)
	}
}

func TestAddressesAccepted(t *testing.T) {
	for _, c := range []Config{
		{AdvertiseAddress: "localhost:0"},
		{AdvertiseAddress: "node-1.example_x.org.:65535"},
		{AdvertiseAddress: "10.0.0.1:1", ListenAddress: ":1"},
		{AdvertiseAddress: "[::1]:1", ListenAddress: "0.0.0.0:0"},
		{AdvertiseAddress: "[fe80::1%eth0]:1"},
		{ListenAddress: "127.0.0.1:0"},
	} {
		require.NoError(t, c.Validate(), "%+v", c)
	}
}

func TestPortZeroGetsTheRealPort(t *testing.T) {
	for _, cfg := range []Config{
		{AdvertiseAddress: "localhost:0"},
		{ListenAddress: "127.0.0.1:0"},
		{AdvertiseAddress: "localhost:0", ListenAddress: "127.0.0.1:0"},
	} {
		n, err := NewNode(cfg)
		require.NoError(t, err)
		_, bound, err := net.SplitHostPort(n.ListenAddress())
		require.NoError(t, err)
		host, port, err := net.SplitHostPort(n.AdvertiseAddress())
		require.NoError(t, err)
		require.Equal(t, bound, port)
		require.NotEqual(t, "0", port)
		require.True(t, strings.HasPrefix(cfg.AdvertiseAddress+cfg.ListenAddress, host))
		require.NoError(t, n.Close())
	}

	// A given port is advertised unchanged, whatever port is bound.
	n, err := NewNode(Config{AdvertiseAddress: "example.org:7", ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	require.Equal(t, "example.org:7", n.AdvertiseAddress())
	require.NoError(t, n.Close())
}

func TestPortInUse(t *testing.T) {
	taken := local(t).AdvertiseAddress()
	for field, cfg := range map[string]Config{
		"set AdvertiseAddress": {AdvertiseAddress: taken},
		"set ListenAddress":    {AdvertiseAddress: "example.org:7", ListenAddress: taken},
	} {
		_, err := NewNode(cfg)
		require.ErrorIs(t, err, ErrAddressInUse)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.False(t, errors.Is(err, ErrBadAddress))
		require.Contains(t, err.Error(), taken)
		require.Contains(t, err.Error(), field)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestAddressOfAnotherMachine(t *testing.T) {
	_, err := NewNode(Config{AdvertiseAddress: "192.0.2.1:1"}) // reserved for documentation
	require.ErrorIs(t, err, ErrBadAddress)
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	require.Contains(t, err.Error(), "set AdvertiseAddress")
}

// Nothing listens before Start, so a connection is refused instead of left waiting, and the watchers of an earlier
// process at the address notice that it is gone.
func TestNothingListensBeforeStart(t *testing.T) {
	address, err := port.Restarted.Draw("127.0.0.1")
	require.NoError(t, err)
	n, err := NewNode(Config{AdvertiseAddress: address})
	require.NoError(t, err)
	defer n.Close()
	require.Equal(t, address, n.ListenAddress())
	_, err = net.Dial("tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	taken, err := net.Listen("tcp", address)
	require.NoError(t, err, "the port is free still")
	err = n.Start()
	require.ErrorIs(t, err, ErrAddressInUse)
	require.ErrorContains(t, err, "AdvertiseAddress")
	require.NoError(t, taken.Close())

	require.NoError(t, n.Start(), "it may be tried again")
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, n.Close())
	_, err = net.Dial("tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

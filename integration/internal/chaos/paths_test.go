//go:build unix

package chaos

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/clustertest/fault"
)

// echo listens at an address, and sends everything back.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				_, _ = io.Copy(conn, conn) // the client may be gone
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// A connection to another node goes through the relay of the pair. One that has no answer by the end of the handshake's
// context ends with that.
func TestPaths(t *testing.T) {
	node := echo(t)
	relay, err := fault.NewRelay(node)
	require.NoError(t, err)
	defer relay.Close()
	credentials := pathCredentials{insecure.NewCredentials(), map[string]string{node: relay.Address()}}
	connect := func(ctx context.Context, to string) net.Conn {
		direct, err := net.Dial("tcp", to)
		require.NoError(t, err)
		conn, _, err := credentials.Clone().ClientHandshake(ctx, "", direct)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
		_, err = conn.Write([]byte("x"))
		require.NoError(t, err)
		return conn
	}
	read := func(conn net.Conn) error {
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := connect(ctx, node)
	require.NoError(t, read(answered))
	require.Equal(t, 1, relay.Connections())

	relay.Blackhole(fault.Both)
	silent := connect(ctx, node)
	require.NoError(t, read(connect(ctx, echo(t))), "the path to another node is not affected")
	cancel()
	require.ErrorIs(t, read(silent), net.ErrClosed)
	require.NoError(t, relay.Heal())
	_, err = answered.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, read(answered), "it outlives the handshake")
}

package peer

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// settingsOf returns the settings with which a node's server begins an HTTP/2 connection.
func settingsOf(t *testing.T, cfg Config) map[uint16]uint32 {
	cfg.ListenAddress = "127.0.0.1:0"
	n, err := NewNode(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	require.NoError(t, n.Start())
	conn, err := net.Dial("tcp", n.AdvertiseAddress())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	require.NoError(t, err)
	head := make([]byte, 9)
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.EqualValues(t, 4, head[3], "a SETTINGS frame")
	body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(conn, body)
	require.NoError(t, err)
	all := map[uint16]uint32{}
	for ; len(body) > 0; body = body[6:] {
		all[binary.BigEndian.Uint16(body)] = binary.BigEndian.Uint32(body[2:])
	}
	return all
}

func TestLimits(t *testing.T) {
	const streams, header = 3, 6 // of HTTP/2
	all := settingsOf(t, Config{})
	require.EqualValues(t, maxStreams, all[streams])
	require.EqualValues(t, maxHeader, all[header])
	all = settingsOf(t, Config{ServerOptions: []grpc.ServerOption{grpc.MaxConcurrentStreams(7)}})
	require.EqualValues(t, 7, all[streams], "the user's options win")
}

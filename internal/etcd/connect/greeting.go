package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
)

// causeWithoutTLS returns the reason why a connection without TLS fails, unknown if it does not fail. It closes
// conn.
func (c Config) causeWithoutTLS(ctx context.Context, conn net.Conn, hostPort string) cause {
	said := c.greetServer(conn)
	_ = conn.Close() // a server that serves one connection at a time must be free for the next one
	if said == replyHTTP2 {
		return unknownCause
	}
	// A TLS server may answer plain text with plain text.
	if again, err := c.dialAddress(ctx, hostPort); err == nil {
		defer func() { _ = again.Close() }() // nothing was written
		if c.answersTLS(again) {
			return speaksTLS
		}
	}
	switch said {
	case replyOther:
		return notEtcd
	case replyNone:
		return silentServer
	}
	return unknownCause
}

// greetsPlain reports whether a server at hostPort speaks HTTP/2 without TLS.
func (c Config) greetsPlain(ctx context.Context, hostPort string) bool {
	conn, err := c.dialAddress(ctx, hostPort)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return c.greetServer(conn) == replyHTTP2
}

// greetingReply is a server's reply to the preface of HTTP/2, the protocol under gRPC.
type greetingReply int

const (
	replyUnclear greetingReply = iota // it closed the connection, as a proxy does when its etcd is gone
	replyHTTP2
	replyOther // a reply that etcd never sends
	replyNone
)

// greetServer sends the preface of HTTP/2 without TLS and returns the kind of reply.
func (c Config) greetServer(conn net.Conn) greetingReply {
	c.startStep(conn)
	emptySettings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+emptySettings); err != nil {
		return replyUnclear
	}
	// An HTTP/2 server first sends its settings: the length of the frame in three bytes, the type, no flags,
	// and stream 0.
	header := make([]byte, len(emptySettings))
	n, err := io.ReadFull(conn, header)
	switch {
	case err == nil && string(header[3:]) == emptySettings[3:]:
		return replyHTTP2
	case err == nil:
		return replyOther
	case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return replyNone
	}
	return replyUnclear
}

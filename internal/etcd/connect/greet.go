package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// causeWithoutTLS is why a connection without TLS fails, unknown if it does not. It closes conn.
func causeWithoutTLS(ctx context.Context, conn net.Conn, hostPort string) cause {
	said := greet(conn)
	_ = conn.Close() // a server that serves one at a time is to serve the next one
	if said == http2 {
		return unknown
	}
	// A server of TLS may answer plain text in plain text.
	if again, err := connect(ctx, hostPort); err == nil {
		defer func() { _ = again.Close() }() // nothing was written
		if answersTLS(again) {
			return speaksTLS
		}
	}
	switch said {
	case other:
		return notEtcd
	case nothing:
		return silent
	}
	return unknown
}

// greetsPlain reports whether a server at hostPort speaks HTTP/2 without TLS.
func greetsPlain(ctx context.Context, hostPort string) bool {
	conn, err := connect(ctx, hostPort)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return greet(conn) == http2
}

// answer is what a server says to the greeting of HTTP/2, which gRPC runs on.
type answer int

const (
	unclear answer = iota // it closed the connection, as a proxy does before an etcd that is gone
	http2
	other // something else, which etcd never says
	nothing
)

// greet greets a server without TLS.
func greet(conn net.Conn) answer {
	_ = conn.SetDeadline(time.Now().Add(stepTimeout))
	emptySettings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+emptySettings); err != nil {
		return unclear
	}
	// The first thing a server of HTTP/2 says are its settings: the length of the frame in
	// three bytes, the type, no flags, and stream 0.
	header := make([]byte, len(emptySettings))
	n, err := io.ReadFull(conn, header)
	switch {
	case err == nil && string(header[3:]) == emptySettings[3:]:
		return http2
	case err == nil:
		return other
	case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return nothing
	}
	return unclear
}

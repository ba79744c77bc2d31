package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// refusesTLS is why a connection over TLS fails, unknown if it does not. It closes conn.
func refusesTLS(ctx context.Context, conn net.Conn, hostPort string, config *tls.Config) (cause, error) {
	secure, err := shakeHands(conn, hostPort, config, "h2")
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) {
		return speaksPlain, nil
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silent, nil
	case isAlert(err):
		_ = conn.Close() // a server that serves one at a time is to serve the next one
		if only, refused := onlyHTTP1(ctx, hostPort, config); only {
			return notEtcd, err
		} else if isStrange(refused) {
			err = refused // which the alert came before
		}
	case err == nil && secure.ConnectionState().NegotiatedProtocol != "h2":
		return unknown, errors.New("over TLS: it does not agree to HTTP/2")
	case err == nil:
		// A server refuses a certificate only after the client's side is content.
		// One that is content too waits for the client to speak.
		_ = conn.SetDeadline(time.Now().Add(stepTimeout))
		_, err = secure.Read(make([]byte, 1))
	}
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return unknown, nil
	case isStrange(err), isAlert(err):
		return badCertificate, err
	}
	return unknown, fmt.Errorf("over TLS: %w", err)
}

// shakeHands begins TLS over conn as a client of etcd does, which then speaks one of these protocols.
func shakeHands(conn net.Conn, hostPort string, config *tls.Config, protocols ...string) (*tls.Conn, error) {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = protocols
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(hostPort) // which is how it was connected to
	}
	_ = conn.SetDeadline(time.Now().Add(stepTimeout))
	secure := tls.Client(conn, config)
	return secure, secure.Handshake()
}

// onlyHTTP1 reports whether a server that refused HTTP/2, or something else, agrees to HTTP/1. The error is
// what the attempt failed with.
func onlyHTTP1(ctx context.Context, hostPort string, config *tls.Config) (bool, error) {
	conn, err := connect(ctx, hostPort)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	secure, err := shakeHands(conn, hostPort, config, "h2", "http/1.1")
	return err == nil && secure.ConnectionState().NegotiatedProtocol == "http/1.1", err
}

// isStrange reports whether this side refuses the other one's certificate.
func isStrange(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isAlert reports whether the other side ended TLS with an alert.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// answersTLS reports whether the server answers a TLS greeting in kind.
func answersTLS(conn net.Conn) bool {
	// Nothing is sent over this connection but the greeting.
	greeting := tls.Client(conn,
		&tls.Config{InsecureSkipVerify: true, //nolint:gosec // see above
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	_ = conn.SetDeadline(time.Now().Add(stepTimeout))
	err := greeting.Handshake()
	return err == nil || isAlert(err)
}

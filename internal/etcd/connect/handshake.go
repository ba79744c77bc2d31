package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"
	"time"
)

// causeOverTLS is why a connection over TLS fails, unknown if it does not. It closes conn.
func causeOverTLS(ctx context.Context, conn net.Conn, hostPort string, config *tls.Config) (cause, error) {
	secure, err := shakeHands(conn, hostPort, config, "h2")
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case plain:
		return speaksPlain, nil
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		// So does a proxy before an etcd that is gone.
		_ = conn.Close()
		if greetsPlain(ctx, hostPort) {
			return speaksPlain, nil
		}
		return unknown, fmt.Errorf("over TLS: %w", err)
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
	case isStrange(err), refusesCertificate(err):
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

// alertOf is the alert with which the other side ended TLS.
func alertOf(err error) (tls.AlertError, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return 0, false
	}
	alert := reflect.ValueOf(op.Err) // of a type that package tls keeps to itself
	if alert.Kind() != reflect.Uint8 {
		return 0, false
	}
	return tls.AlertError(alert.Uint()), true
}

// The alerts of TLS that are about a certificate (RFC 8446, section 6.2). A server of TLS 1.2 that misses
// one fails the handshake.
const (
	handshakeFailure       tls.AlertError = 40
	badCertificateAlert    tls.AlertError = 42
	unsupportedCertificate tls.AlertError = 43
	certificateRevoked     tls.AlertError = 44
	certificateExpired     tls.AlertError = 45
	certificateUnknown     tls.AlertError = 46
	unknownAuthority       tls.AlertError = 48
	accessDenied           tls.AlertError = 49
	certificateRequired    tls.AlertError = 116
)

// refusesCertificate reports whether the other side refuses this one's certificate. Other alerts are of a
// server that has trouble of its own: one whose key does not match its certificate, as these are being
// replaced.
func refusesCertificate(err error) bool {
	switch alert, _ := alertOf(err); alert {
	case handshakeFailure, badCertificateAlert, unsupportedCertificate, certificateRevoked, certificateExpired,
		certificateUnknown, unknownAuthority, accessDenied, certificateRequired:
		return true
	}
	return false
}

// isOutOfDate reports whether a certificate has expired, or is not valid yet: a clock that is put right, or
// a renewal, changes that.
func isOutOfDate(err error) bool {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return true
	}
	alert, _ := alertOf(err)
	return alert == certificateExpired
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

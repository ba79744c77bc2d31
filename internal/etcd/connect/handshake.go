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
)

// causeOverTLS returns the reason why a connection over TLS fails, unknown if it does not fail. It closes conn.
func (c Config) causeOverTLS(ctx context.Context, conn net.Conn, hostPort string, config *tls.Config) (cause, error) {
	secure, err := c.shakeHands(conn, hostPort, config, "h2")
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case plain:
		return speaksPlain, nil
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		// A proxy does the same when its etcd is gone.
		_ = conn.Close()
		if c.greetsPlain(ctx, hostPort) {
			return speaksPlain, nil
		}
		return unknownCause, fmt.Errorf("over TLS: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silentServer, nil
	case isAlert(err):
		_ = conn.Close() // a server that serves one connection at a time must be free for the next one
		if only, refused := c.onlyHTTP1(ctx, hostPort, config); only {
			return notEtcd, err
		} else if isUntrusted(refused) {
			err = refused // the alert came before this error
		}
	case err == nil && secure.ConnectionState().NegotiatedProtocol != "h2":
		return unknownCause, errors.New("over TLS: it does not agree to HTTP/2")
	case err == nil:
		// A server refuses a certificate only after the client has finished its part. If the server has
		// finished too, it waits for the client to speak.
		c.startStep(conn)
		_, err = secure.Read(make([]byte, 1))
	}
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return unknownCause, nil
	case isUntrusted(err), refusesCertificate(err):
		return badCertificate, err
	}
	return unknownCause, fmt.Errorf("over TLS: %w", err)
}

// shakeHands begins TLS over conn as a client of etcd does, offering these protocols.
func (c Config) shakeHands(conn net.Conn, hostPort string, config *tls.Config, protocols ...string) (*tls.Conn,
	error) {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = protocols
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(hostPort) // the name under which it was dialed
	}
	c.startStep(conn)
	secure := tls.Client(conn, config)
	return secure, secure.Handshake()
}

// onlyHTTP1 reports whether a server that refused HTTP/2, or failed for another reason, accepts HTTP/1. It
// returns the error of the attempt.
func (c Config) onlyHTTP1(ctx context.Context, hostPort string, config *tls.Config) (bool, error) {
	conn, err := c.dialAddress(ctx, hostPort)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	secure, err := c.shakeHands(conn, hostPort, config, "h2", "http/1.1")
	return err == nil && secure.ConnectionState().NegotiatedProtocol == "http/1.1", err
}

// isUntrusted reports whether this side refused the certificate of the other side.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isAlert reports whether the other side ended TLS with an alert.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// alertOf returns the alert with which the other side ended TLS.
func alertOf(err error) (tls.AlertError, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return 0, false
	}
	alert := reflect.ValueOf(op.Err) // its type is private to package tls
	if alert.Kind() != reflect.Uint8 {
		return 0, false
	}
	return tls.AlertError(alert.Uint()), true
}

// These TLS alerts concern a certificate (RFC 8446, section 6.2). A TLS 1.2 server that misses one sends a
// handshake failure.
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

// refusesCertificate reports whether the other side refused the certificate of this side. Other alerts mean
// that the server has a problem of its own, for example a key that does not match its certificate while both
// are being replaced.
func refusesCertificate(err error) bool {
	switch alert, _ := alertOf(err); alert {
	case handshakeFailure, badCertificateAlert, unsupportedCertificate, certificateRevoked, certificateExpired,
		certificateUnknown, unknownAuthority, accessDenied, certificateRequired:
		return true
	}
	return false
}

// isOutOfDate reports whether a certificate has expired or is not valid yet. A corrected clock or a renewed
// certificate resolves that.
func isOutOfDate(err error) bool {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return true
	}
	alert, _ := alertOf(err)
	return alert == certificateExpired
}

// answersTLS reports whether the server answers a TLS greeting with TLS.
func (c Config) answersTLS(conn net.Conn) bool {
	// Only the greeting is sent over this connection.
	greeting := tls.Client(conn,
		&tls.Config{InsecureSkipVerify: true, //nolint:gosec // see above
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	c.startStep(conn)
	err := greeting.Handshake()
	return err == nil || isAlert(err)
}

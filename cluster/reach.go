package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// probeTimeout bounds each step of looking for the reason.
const probeTimeout = 500 * time.Millisecond

// WhyUnreachable looks for a better reason than err, a time-out, which is all that
// etcd's client says: nobody listens at the first of cfg's addresses, the name is
// unknown, one side speaks TLS and the other does not, or a certificate is refused.
// If it finds none, or err is no time-out, it returns err. It connects to that
// address once and blocks for a second and a half at most.
func WhyUnreachable(ctx context.Context, cfg Config, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cfg = cfg.withDefaults()
	first, _, _ := strings.Cut(cfg.EtcdAddress, ",")
	if cfg.Client != nil {
		first = ""
		if all := cfg.Client.Endpoints(); len(all) > 0 {
			first = all[0]
		}
	}
	scheme, address, ok := strings.Cut(strings.TrimSpace(first), "://")
	if !ok {
		scheme, address = "", scheme
	}
	address = strings.TrimSuffix(address, "/")
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, why := dialer.DialContext(context.WithoutCancel(ctx), "tcp", address)
	if why != nil {
		return why
	}
	defer func() { _ = conn.Close() }()
	switch {
	case cfg.Client != nil: // whose TLS settings are not to be seen
	case cfg.TLS != nil || scheme == "https":
		why = refusesTLS(conn, address, cfg.TLS)
	case speaksTLS(conn):
		why = errors.New("it speaks TLS, and this side does not: set the certificate authority, or write https://")
	}
	if why != nil {
		return why
	}
	return err
}

// refusesTLS is why a connection over TLS fails, nil if it does not.
func refusesTLS(conn net.Conn, address string, config *tls.Config) error {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address) // checked with the rest of Config
	}
	secure := tls.Client(conn, config)
	_ = conn.SetDeadline(time.Now().Add(probeTimeout))
	err := secure.Handshake()
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return errors.New("it does not speak TLS, and this side does: write http:// and give no certificates")
	}
	if err == nil {
		// A server refuses a certificate only after the client's side is content.
		// One that is content too waits for the client to speak.
		_ = conn.SetDeadline(time.Now().Add(probeTimeout))
		_, err = secure.Read(make([]byte, 1))
	}
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	return fmt.Errorf("over TLS: %w; check the certificates and their authority", err)
}

// speaksTLS reports whether the server answers a TLS greeting in kind.
func speaksTLS(conn net.Conn) bool {
	// Nothing is sent over this connection but the greeting.
	greeting := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}) //nolint:gosec // see above
	_ = conn.SetDeadline(time.Now().Add(probeTimeout))
	err := greeting.Handshake()
	var alert tls.AlertError
	var remote *net.OpError
	return err == nil || errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error"
}

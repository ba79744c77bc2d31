package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// probeTimeout bounds each step of looking for the reason.
const probeTimeout = 500 * time.Millisecond

// WhyUnreachable looks for a better reason than err, which etcd's client gave. A
// time-out is all that it says where nobody listens at the first of cfg's addresses,
// the name is unknown, one side speaks TLS and the other does not, a certificate is
// refused, nothing is said, or another server answers than one of gRPC. The last, and a gRPC
// server that is no etcd, match ErrNotEtcd: that lasts, however slow an etcd may be. If there
// is no better reason it returns err. After a time-out it connects to that address once or
// twice and blocks for two seconds at most.
func WhyUnreachable(ctx context.Context, cfg Config, err error) error {
	cfg = cfg.withDefaults()
	addresses := cfg.EtcdAddress
	if cfg.Client != nil {
		addresses = strings.Join(cfg.Client.Endpoints(), ",")
	}
	if status.Code(err) == codes.Unimplemented {
		return &notEtcdError{address: addresses, cause: err}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	first, _, _ := strings.Cut(addresses, ",")
	if first == "" { // a client within the process
		return err
	}
	scheme, address, ok := strings.Cut(strings.TrimSpace(first), "://")
	if !ok {
		scheme, address = "", scheme
	}
	address = strings.TrimSuffix(address, "/")
	conn, why := probe(ctx, address)
	if why != nil {
		return why
	}
	defer func() { _ = conn.Close() }()
	switch {
	case cfg.Client != nil: // whose TLS settings are not to be seen
	case cfg.TLS != nil || scheme == "https":
		why = refusesTLS(conn, address, cfg.TLS)
	default:
		why = refusesPlain(ctx, conn, address, err)
	}
	if why != nil {
		return why
	}
	return err
}

// probe connects to address to look who is there, also where ctx has ended.
func probe(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: probeTimeout}
	return dialer.DialContext(context.WithoutCancel(ctx), "tcp", address)
}

// refusesPlain is why a connection without TLS fails, nil if it does not. It closes conn.
func refusesPlain(ctx context.Context, conn net.Conn, address string, err error) error {
	said := greet(conn)
	_ = conn.Close() // who serves one at a time is to serve the next one
	if said == http2 {
		return nil
	}
	// A server of TLS may tell in plain text what it thinks of that.
	if again, failed := probe(ctx, address); failed == nil {
		defer func() { _ = again.Close() }()
		if speaksTLS(again) {
			return errors.New("it speaks TLS, and this side does not: set the certificate authority, or write https://")
		}
	}
	switch said {
	case other:
		return &notEtcdError{address: address, cause: err}
	case nothing:
		return errors.New("it takes connections and says nothing: it is no etcd, or one that stands still")
	}
	return nil
}

// notEtcdError: who answers at address is no etcd.
type notEtcdError struct {
	address string
	cause   error
}

func (e *notEtcdError) Error() string {
	return fmt.Sprintf("what answers at %s is no etcd: give etcd's client address, usually port 2379", e.address)
}

func (e *notEtcdError) Is(target error) bool { return target == ErrNotEtcd }

func (e *notEtcdError) Unwrap() error { return e.cause }

// answer is what a server says to the greeting of HTTP/2, which gRPC runs on.
type answer int

const (
	unclear answer = iota // it closed the connection, as one does before which etcd is gone
	http2
	other // something else, which etcd never says
	nothing
)

// greet greets a server without TLS.
func greet(conn net.Conn) answer {
	_ = conn.SetDeadline(time.Now().Add(probeTimeout))
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
	greeting := tls.Client(conn,
		&tls.Config{InsecureSkipVerify: true, //nolint:gosec // see above
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	_ = conn.SetDeadline(time.Now().Add(probeTimeout))
	err := greeting.Handshake()
	var alert tls.AlertError
	var remote *net.OpError
	return err == nil || errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error"
}

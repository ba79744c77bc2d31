package connect

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// defaultStepTimeout limits each of the four steps of examining one address.
const defaultStepTimeout = 500 * time.Millisecond

// diagnoseAddresses examines the addresses for the reason why etcd does not answer; err is the error of etcd's client,
// which has no details. It returns the reason at the first address where it may pass, otherwise the one at the last
// address. It does so even if the deadline of ctx has passed. If ctx was canceled it finds nothing.
func (c Config) diagnoseAddresses(ctx context.Context, err error) *problem {
	last := c.newProblem(unknownCause, "", err)
	if _, ok := errors.AsType[rpctypes.EtcdError](err); ok || errors.Is(ctx.Err(), context.Canceled) {
		return last // etcd itself has answered that it cannot serve
	}
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			stop()
		}
	})()
	for _, address := range c.addresses() {
		why, found := c.diagnoseAddress(looking, address)
		if looking.Err() != nil || why == unknownCause && found == nil {
			return c.newProblem(unknownCause, "", err)
		}
		if found == nil {
			found = err
		}
		if last = c.newProblem(why, address, found); !last.isPermanent() {
			return last
		}
	}
	return last
}

// diagnoseAddress connects to address once or twice and sends only a greeting. Its error has further details, if there
// are any.
func (c Config) diagnoseAddress(ctx context.Context, address string) (cause, error) {
	hostPort, ok := splitAddress(address)
	if _, _, err := net.SplitHostPort(hostPort); err != nil || !ok {
		return unknownCause, nil
	}
	conn, err := c.dialAddress(ctx, hostPort)
	if err != nil {
		return causeOfDial(err), err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	switch {
	case c.foreign:
		return unknownCause, nil
	case c.usesTLS():
		config, err := c.HandshakeTLS()
		if err != nil {
			return unknownCause, err
		}
		return c.causeOverTLS(ctx, conn, hostPort, config)
	}
	return c.causeWithoutTLS(ctx, conn, hostPort), nil
}

// usesTLS reports whether the client speaks TLS. The first address decides for all.
func (c Config) usesTLS() bool {
	first := c.addresses()[0]
	configured := c.TLS != nil || c.CurrentTLS != nil
	return strings.HasPrefix(first, "https://") || configured && !strings.HasPrefix(first, "http://")
}

// dialAddress connects to hostPort. The connection is closed when ctx ends.
func (c Config) dialAddress(ctx context.Context, hostPort string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: c.stepTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	detach := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &contextConn{conn, detach}, nil
}

// contextConn is a connection that is closed when its context ends.
type contextConn struct {
	net.Conn
	detach func() bool
}

// Close closes the connection.
func (w *contextConn) Close() error {
	w.detach()
	return w.Conn.Close()
}

// startStep gives conn the time of one step.
func (c Config) startStep(conn net.Conn) { _ = conn.SetDeadline(time.Now().Add(c.stepTimeout)) }

// causeOfDial returns the reason why no connection was made.
func causeOfDial(err error) cause {
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return unknownName
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return refusedConnection
	}
	return unknownCause
}

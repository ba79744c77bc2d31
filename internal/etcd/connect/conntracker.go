package connect

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connTracker records a client's connections, as seen by its handshakes.
type connTracker struct {
	mu            sync.Mutex
	byAddress     map[string]*addressState // by host:port
	hadConnection bool                     // there has been a connection
}

// addressState is the state of one address.
type addressState struct {
	openConns      int       // connections over which the other side has sent data
	certificateErr error     // why a certificate was refused at the last attempt, nil if none was
	awaySince      time.Time // since when there is no connection; zero before the first inspection
}

func newConnTracker() *connTracker { return &connTracker{byAddress: map[string]*addressState{}} }

func (l *connTracker) updateState(address string, change func(*addressState)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.byAddress[address]
	if k == nil {
		k = &addressState{}
		l.byAddress[address] = k
	}
	change(k)
}

// statesOf returns the present state of these addresses.
func (l *connTracker) statesOf(addresses []string, now time.Time) []addressState {
	out := make([]addressState, len(addresses))
	for i, address := range addresses {
		l.updateState(address, func(k *addressState) {
			switch {
			case k.openConns > 0:
				k.awaySince = time.Time{}
			case k.awaySince.IsZero():
				k.awaySince = now
			}
			out[i] = *k
		})
	}
	return out
}

// everConnected reports whether there has been a connection to any address.
func (l *connTracker) everConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hadConnection
}

// anyConnected reports whether there is a connection to any address.
func (l *connTracker) anyConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.byAddress {
		if k.openConns > 0 {
			return true
		}
	}
	return false
}

// recordFailure records why an attempt failed.
func (l *connTracker) recordFailure(address string, err error) {
	if !isUntrusted(err) && !refusesCertificate(err) {
		err = nil
	}
	l.updateState(address, func(k *addressState) { k.certificateErr = err })
}

// currentCredentials implements credentials that use the current configuration for each handshake and report to links.
type currentCredentials struct {
	tracker    *connTracker
	currentTLS func() (*tls.Config, error) // nil without TLS
}

// ClientHandshake implements credentials.TransportCredentials. The authority is the address, host and port,
// that etcd's client was given.
func (t *currentCredentials) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	creds := insecure.NewCredentials()
	if t.currentTLS != nil {
		config, err := t.currentTLS()
		if err != nil {
			return nil, nil, err
		}
		creds = credentials.NewTLS(config)
	}
	conn, info, err := creds.ClientHandshake(ctx, authority, raw)
	if err != nil {
		t.tracker.recordFailure(authority, err)
		return nil, nil, err
	}
	return &trackedConn{Conn: conn, tracker: t.tracker, address: authority}, info, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (t *currentCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return insecure.NewCredentials().ServerHandshake(raw) // clients do not use it
}

// Info implements credentials.TransportCredentials.
func (t *currentCredentials) Info() credentials.ProtocolInfo {
	if t.currentTLS == nil {
		return insecure.NewCredentials().Info()
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}).Info()
}

// Clone implements credentials.TransportCredentials.
func (t *currentCredentials) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials.
func (t *currentCredentials) OverrideServerName(string) error { return nil }

// trackedConn is a connection that is counted in links once the other side has sent data, because a TLS 1.3 server
// refuses a certificate only after the client's handshake.
type trackedConn struct {
	net.Conn
	tracker *connTracker
	address string

	answered bool // used by the reader alone
	mu       sync.Mutex
	counted  bool // it is counted in links
	closed   bool
}

// Read reads, and records the first answer.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case c.answered:
	case n > 0:
		c.answered = true
		c.countOpen(true)
	case err != nil:
		c.answered = true
		c.tracker.recordFailure(c.address, err)
	}
	return n, err
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.countOpen(false)
	return c.Conn.Close()
}

func (c *trackedConn) countOpen(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case up && !c.counted && !c.closed:
		c.counted = true
		c.tracker.updateState(c.address, func(k *addressState) {
			k.openConns, k.certificateErr, c.tracker.hadConnection = k.openConns+1, nil, true
		})
	case !up:
		if c.counted {
			c.tracker.updateState(c.address, func(k *addressState) { k.openConns-- })
		}
		c.counted, c.closed = false, true
	}
}

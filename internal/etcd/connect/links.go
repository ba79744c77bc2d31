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

// links records a client's connections, as seen by its handshakes.
type links struct {
	mu   sync.Mutex
	of   map[string]*link // by host:port
	ever bool             // there has been a connection
}

// link is the state of one address.
type link struct {
	open    int       // connections over which the other side has sent data
	refused error     // why a certificate was refused at the last attempt, nil if none was
	since   time.Time // since when there is no connection; zero before the first inspection
}

func newLinks() *links { return &links{of: map[string]*link{}} }

func (l *links) update(address string, change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of[address]
	if k == nil {
		k = &link{}
		l.of[address] = k
	}
	change(k)
}

// look returns the present state of these addresses.
func (l *links) look(addresses []string, now time.Time) []link {
	out := make([]link, len(addresses))
	for i, address := range addresses {
		l.update(address, func(k *link) {
			switch {
			case k.open > 0:
				k.since = time.Time{}
			case k.since.IsZero():
				k.since = now
			}
			out[i] = *k
		})
	}
	return out
}

// reached reports whether there has been a connection to any address.
func (l *links) reached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ever
}

// connected reports whether there is a connection to any address.
func (l *links) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.of {
		if k.open > 0 {
			return true
		}
	}
	return false
}

// failed records why an attempt failed.
func (l *links) failed(address string, err error) {
	if !isStrange(err) && !refusesCertificate(err) {
		err = nil
	}
	l.update(address, func(k *link) { k.refused = err })
}

// transport implements credentials that use the current configuration for each handshake and report to links.
type transport struct {
	links   *links
	current func() (*tls.Config, error) // nil without TLS
}

// ClientHandshake implements credentials.TransportCredentials. The authority is the address, host and port,
// that etcd's client was given.
func (t *transport) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	creds := insecure.NewCredentials()
	if t.current != nil {
		config, err := t.current()
		if err != nil {
			return nil, nil, err
		}
		creds = credentials.NewTLS(config)
	}
	conn, info, err := creds.ClientHandshake(ctx, authority, raw)
	if err != nil {
		t.links.failed(authority, err)
		return nil, nil, err
	}
	return &linked{Conn: conn, links: t.links, address: authority}, info, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (t *transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return insecure.NewCredentials().ServerHandshake(raw) // clients do not use it
}

// Info implements credentials.TransportCredentials.
func (t *transport) Info() credentials.ProtocolInfo {
	if t.current == nil {
		return insecure.NewCredentials().Info()
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}).Info()
}

// Clone implements credentials.TransportCredentials.
func (t *transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials.
func (t *transport) OverrideServerName(string) error { return nil }

// linked is a connection that is counted in links once the other side has sent data, because a TLS 1.3 server
// refuses a certificate only after the client's handshake.
type linked struct {
	net.Conn
	links   *links
	address string

	spoke bool // used by the reader alone
	mu    sync.Mutex
	open  bool // it is counted in links
	ended bool
}

// Read reads, and records the first answer.
func (c *linked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case c.spoke:
	case n > 0:
		c.spoke = true
		c.count(true)
	case err != nil:
		c.spoke = true
		c.links.failed(c.address, err)
	}
	return n, err
}

// Close closes the connection.
func (c *linked) Close() error {
	c.count(false)
	return c.Conn.Close()
}

func (c *linked) count(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case up && !c.open && !c.ended:
		c.open = true
		c.links.update(c.address, func(k *link) { k.open, k.refused, c.links.ever = k.open+1, nil, true })
	case !up:
		if c.open {
			c.links.update(c.address, func(k *link) { k.open-- })
		}
		c.open, c.ended = false, true
	}
}

package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/wait"
)

// Certificates holds the content of the files and keeps it current. New creates it. All methods are safe for
// concurrent use.
type Certificates struct {
	cfg     Config
	log     hclog.Logger
	current atomic.Pointer[generation]
	stop    context.CancelFunc
	done    chan struct{}
	readMu  sync.Mutex // held while the files are read
}

// New reads the files, and continues to read them periodically until Close. Errors are one line; if a file is
// at fault, they are a *FileError.
func New(cfg Config) (*Certificates, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	c := &Certificates{cfg: cfg, log: logqueue.New(cfg.Logger), done: make(chan struct{})}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(ctx)
	return c, nil
}

// ServerOption returns an option for node.Config.ServerOptions, or any other gRPC server. The server accepts
// only callers with a certificate signed by the authorities.
func (c *Certificates) ServerOption() grpc.ServerOption { return grpc.Creds(transport{c}) }

// DialOption returns an option for cluster.Config.DialOptions, or any other gRPC client. The client verifies the
// server and presents the certificate.
func (c *Certificates) DialOption() grpc.DialOption {
	return grpc.WithTransportCredentials(transport{c})
}

// ServerTLS returns the configuration of a server other than a node's, with Config.ServerOnly: an HTTP server
// behind tls.NewListener, which it restricts to HTTP/1.1. Each handshake uses the current certificates.
func (c *Certificates) ServerTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if now := c.current.Load().otherTLS; now != nil {
				return now, nil
			}
			return nil, errors.New("mtls: ServerTLS is for certificates with Config.ServerOnly")
		}}
}

// EtcdTLS returns a configuration for cluster.Config.CurrentTLS, with Config.ForEtcd: each new connection to
// etcd uses the current certificates. It reads no file and does not block.
func (c *Certificates) EtcdTLS() (*tls.Config, error) {
	if now := c.current.Load().etcd; now != nil {
		return now, nil
	}
	return nil, errors.New("mtls: EtcdTLS is for certificates with Config.ForEtcd")
}

// Expiry is the validity of the certificates in a file.
type Expiry struct {
	// File is the name of the file.
	File string
	// NotBefore and NotAfter belong to the certificate presented, or to the authority that expires last.
	NotBefore, NotAfter time.Time
}

// Expiries returns the validity of the certificate and of the authorities in use, one entry per file. If one
// file has both, its entry is that of the certificate.
func (c *Certificates) Expiries() []Expiry { return c.current.Load().expiries(c.cfg) }

func (g *generation) expiries(cfg Config) (out []Expiry) {
	if g.leaf != nil {
		out = append(out, Expiry{File: cfg.CertFile, NotBefore: g.leaf.NotBefore, NotAfter: g.leaf.NotAfter})
	}
	if len(g.authorities) > 0 && (g.leaf == nil || cfg.CAFile != cfg.CertFile) {
		last := slices.MaxFunc(g.authorities, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		out = append(out, Expiry{File: cfg.CAFile, NotBefore: last.NotBefore, NotAfter: last.NotAfter})
	}
	return out
}

// Leaf returns the certificate that new connections present, nil if they present none. It must not be modified.
func (c *Certificates) Leaf() *x509.Certificate { return c.current.Load().leaf }

// Reload reads the files now, on a signal for example. If it fails, the former content stays in use; errors are
// as with New.
func (c *Certificates) Reload() error {
	_, err := c.reload()
	return err
}

// Close stops reading the files, and waits for a read in progress. It waits for at most a second, in case a
// file system hangs. The options continue to work with the last certificates. Close may be called again. It
// always returns nil.
func (c *Certificates) Close() error {
	c.stop()
	wait.Join(c.done, wait.JoinLimit)
	return nil
}

// reload reads the files and, if they have changed, starts to use their content. Seen identifies the content,
// even if it is broken.
func (c *Certificates) reload() (seen string, err error) {
	c.readMu.Lock()
	seen, former, now, err := c.readGeneration()
	c.readMu.Unlock()
	if now != nil {
		c.notifyReplaced(former, now)
	}
	return seen, err
}

// readGeneration is reload without log lines and callbacks. Now is nil unless the content is new.
func (c *Certificates) readGeneration() (seen string, former, now *generation, err error) {
	held, err := c.cfg.readFiles()
	if err != nil {
		return err.Error(), nil, nil, err
	}
	sum, former := held.hash(), c.current.Load()
	seen = string(sum[:])
	if former != nil && former.sum == sum {
		return seen, nil, nil, nil
	}
	if now, err = c.cfg.newGeneration(held, time.Now()); err != nil {
		return seen, nil, nil, err
	}
	c.current.Store(now)
	return seen, former, now, nil
}

// notifyReplaced logs a new generation and calls Replaced.
func (c *Certificates) notifyReplaced(former, now *generation) {
	if former == nil {
		level := hclog.Info
		if c.cfg.ForEtcd { // a client only logs failures
			level = hclog.Debug
		}
		c.log.Log(level, "certificates loaded", now.logFields(c.cfg)...)
		return
	}
	says := "certificates replaced: new connections use them"
	if same := former.leaf != nil && now.leaf != nil && former.leaf.Equal(now.leaf); same || now.leaf == nil {
		says = "authorities replaced: new connections use them"
	}
	c.log.Info(says, now.logFields(c.cfg)...)
	if c.cfg.Replaced == nil {
		return
	}
	if err := callback.Run(func() error {
		c.cfg.Replaced(!slices.EqualFunc(former.authorities, now.authorities, (*x509.Certificate).Equal))
		return nil
	}); err != nil {
		callback.LogFailure(c.log, "Replaced did not return; the files are looked at all the same", err)
	}
}

// logFields returns the fields of log lines about a generation.
func (g *generation) logFields(cfg Config) []any {
	if g.leaf == nil {
		if len(g.authorities) == 0 {
			return nil
		}
		return []any{"file", cfg.CAFile, "authorities", len(g.authorities), "expires", formatUTC(g.expiries(cfg)[0].NotAfter)}
	}
	about := []any{"file", cfg.CertFile, "serial", g.leaf.SerialNumber, "for", certificateHosts(g.leaf), "expires",
		formatUTC(g.leaf.NotAfter)}
	if cfg.CAFile != "" {
		about = append(about, "authorities", len(g.authorities))
	}
	return about
}

// run reads the files periodically until ctx ends.
func (c *Certificates) run(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	var w contentLog
	for {
		w.remindExpiry(c.Leaf(), time.Now(), c.log)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return // the select may have chosen the tick
		}
		seen, err := c.reload()
		w.report(seen, err, c.log)
	}
}

// contentLog remembers the content that was logged.
type contentLog struct {
	broken, logged string // identify content that could not be used
	ending         *x509.Certificate
}

// report logs unusable content once, and only after it was seen twice, because the files may be half written.
func (w *contentLog) report(seen string, err error, log hclog.Logger) {
	if err == nil {
		w.broken, w.logged = "", ""
		return
	}
	if seen == w.broken && seen != w.logged {
		w.logged = seen
		log.Warn("new certificate files cannot be used, the former certificates stay in use", "error", err)
	}
	w.broken = seen
}

// remindExpiry logs once that a certificate has less than a tenth of its validity left.
func (w *contentLog) remindExpiry(leaf *x509.Certificate, now time.Time, log hclog.Logger) {
	if leaf == nil || w.ending == leaf || leaf.NotAfter.Sub(now) > leaf.NotAfter.Sub(leaf.NotBefore)/10 {
		return
	}
	w.ending = leaf
	log.Warn("the certificate is about to expire, then others refuse new connections: write a new one into its files",
		"serial", leaf.SerialNumber, "expires", formatUTC(leaf.NotAfter))
}

var errNoNode = errors.New("mtls: certificates with Config.ServerOnly are for ServerTLS, and those with ForEtcd for " +
	"EtcdTLS, and not for the gRPC of nodes")

// transport implements credentials that use the current certificates in each handshake.
type transport struct{ certs *Certificates }

// ClientHandshake implements credentials.TransportCredentials.
func (t transport) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now := t.certs.current.Load()
	if now.client == nil {
		return nil, nil, errNoNode
	}
	return now.client.ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now := t.certs.current.Load()
	if now.server == nil {
		return nil, nil, errNoNode
	}
	conn, info, err := now.server.ServerHandshake(raw)
	if err != nil {
		t.certs.log.Debug("refused a connection", "from", raw.RemoteAddr(), "error", err)
	}
	return conn, info, err
}

// Info implements credentials.TransportCredentials.
func (t transport) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}).Info()
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials.
func (t transport) OverrideServerName(string) error {
	return errors.New("mtls: the server's name is not set here: use grpc.WithAuthority")
}

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
)

// Certificates are what the files hold, kept current. New makes them; all methods are safe for concurrent use.
type Certificates struct {
	cfg     Config
	log     hclog.Logger
	current atomic.Pointer[generation]
	stop    context.CancelFunc
	done    chan struct{}
	reading sync.Mutex // one at a time reads the files
}

// New reads the files, and looks at them from then on, until Close. Errors are one line; where a file is at fault
// they are a *FileError.
func New(cfg Config) (*Certificates, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	c := &Certificates{cfg: cfg, log: logqueue.New(cfg.Logger), done: make(chan struct{})}
	if _, err := c.look(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(ctx)
	return c, nil
}

// ServerOption is for node.Config.ServerOptions, or any other gRPC server: it is served to callers with a certificate
// of the authorities only.
func (c *Certificates) ServerOption() grpc.ServerOption { return grpc.Creds(transport{c}) }

// DialOption is for cluster.Config.DialOptions, node.Identify, or any other gRPC client: it verifies the server and
// shows the certificate.
func (c *Certificates) DialOption() grpc.DialOption {
	return grpc.WithTransportCredentials(transport{c})
}

// ServerTLS is for another server than a node's, with Config.ServerOnly: an HTTP server behind tls.NewListener, which
// it has speak HTTP/1.1. Each handshake is made with the certificates of that moment.
func (c *Certificates) ServerTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if now := c.current.Load().other; now != nil {
				return now, nil
			}
			return nil, errors.New("mtls: ServerTLS is for certificates with Config.ServerOnly")
		}}
}

// EtcdTLS is for cluster.Config.CurrentTLS, with Config.ForEtcd: each connection to etcd is made with the certificates
// of that moment. It reads no file, and does not block.
func (c *Certificates) EtcdTLS() (*tls.Config, error) {
	if now := c.current.Load().etcd; now != nil {
		return now, nil
	}
	return nil, errors.New("mtls: EtcdTLS is for certificates with Config.ForEtcd")
}

// Expiry is when what a file holds expires.
type Expiry struct {
	// File is the file's name.
	File string
	// NotBefore and NotAfter are those of the certificate shown, or among authorities of the one that expires last.
	NotBefore, NotAfter time.Time
}

// Expiries are those of the certificate and of the authorities that are in use, as far as there are files for them: one
// for each file, that of the certificate where it has both.
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

// Leaf is the certificate that new connections show now, nil if none is shown. It must not be altered.
func (c *Certificates) Leaf() *x509.Certificate { return c.current.Load().leaf }

// Reload reads the files now: on a signal, for example. Where it fails, what was in use stays so; the error is as
// with New.
func (c *Certificates) Reload() error {
	_, err := c.look()
	return err
}

// Close ends looking at the files, and returns when it has ended; a file that has not been read for a second by then,
// because its file system hangs, is left behind. The options go on working with the certificates as they were last. It
// may be called again.
func (c *Certificates) Close() {
	c.stop()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
	}
}

// closePatience is how long Close waits for a file that is being read.
const closePatience = time.Second

// look reads the files and, if they have changed, takes what they hold. seen identifies what was seen, also where it
// is broken.
func (c *Certificates) look() (seen string, err error) {
	c.reading.Lock()
	seen, former, now, err := c.read()
	c.reading.Unlock()
	if now != nil {
		c.sayReplaced(former, now)
	}
	return seen, err
}

// read is look without a word; now is nil unless there is something new.
func (c *Certificates) read() (seen string, former, now *generation, err error) {
	held, err := c.cfg.read()
	if err != nil {
		return err.Error(), nil, nil, err
	}
	sum, former := held.sum(), c.current.Load()
	seen = string(sum[:])
	if former != nil && former.sum == sum {
		return seen, nil, nil, nil
	}
	if now, err = c.cfg.generation(held, time.Now()); err != nil {
		return seen, nil, nil, err
	}
	c.current.Store(now)
	return seen, former, now, nil
}

// sayReplaced says that there is a new generation.
func (c *Certificates) sayReplaced(former, now *generation) {
	if former == nil {
		level := hclog.Info
		if c.cfg.ForEtcd { // a client says what is wrong with it, and nothing else
			level = hclog.Debug
		}
		c.log.Log(level, "certificates loaded", now.about(c.cfg)...)
		return
	}
	says := "certificates replaced: new connections use them"
	if same := former.leaf != nil && now.leaf != nil && former.leaf.Equal(now.leaf); same || now.leaf == nil {
		says = "authorities replaced: new connections use them"
	}
	c.log.Info(says, now.about(c.cfg)...)
	if c.cfg.Replaced == nil {
		return
	}
	if err := callback.Run(func() error {
		c.cfg.Replaced(!slices.EqualFunc(former.authorities, now.authorities, (*x509.Certificate).Equal))
		return nil
	}); err != nil {
		c.log.Error("Replaced did not return; the files are looked at all the same", "error", err, "stack",
			callback.Stack(err))
	}
}

// about is what the log says of what is in use.
func (g *generation) about(cfg Config) []any {
	if g.leaf == nil {
		if len(g.authorities) == 0 {
			return nil
		}
		return []any{"file", cfg.CAFile, "authorities", len(g.authorities), "expires", utc(g.expiries(cfg)[0].NotAfter)}
	}
	about := []any{"file", cfg.CertFile, "serial", g.leaf.SerialNumber, "for", names(g.leaf), "expires",
		utc(g.leaf.NotAfter)}
	if cfg.CAFile != "" {
		about = append(about, "authorities", len(g.authorities))
	}
	return about
}

// run looks at the files until ctx ends.
func (c *Certificates) run(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	var w watcher
	for {
		w.remind(c.Leaf(), time.Now(), c.log)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return // both were so
		}
		seen, err := c.look()
		w.report(seen, err, c.log)
	}
}

// watcher remembers what was logged.
type watcher struct {
	broken, logged string // what was seen that could not be used
	ending         *x509.Certificate
}

// report logs what cannot be used once, and only when it was seen twice: half of the files may have been written.
func (w *watcher) report(seen string, err error, log hclog.Logger) {
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

// remind logs once that a certificate has less than a tenth of its time left.
func (w *watcher) remind(leaf *x509.Certificate, now time.Time, log hclog.Logger) {
	if leaf == nil || w.ending == leaf || leaf.NotAfter.Sub(now) > leaf.NotAfter.Sub(leaf.NotBefore)/10 {
		return
	}
	w.ending = leaf
	log.Warn("the certificate is about to expire, then others refuse new connections: write a new one into its files",
		"serial", leaf.SerialNumber, "expires", utc(leaf.NotAfter))
}

var errNoNode = errors.New("mtls: certificates with Config.ServerOnly are for ServerTLS, and those with ForEtcd for " +
	"EtcdTLS, and not for the gRPC of nodes")

// transport are credentials that make each handshake with the certificates of that moment.
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

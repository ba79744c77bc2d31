package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// A Daemon is one node process. New creates it, and Run runs it once.
type Daemon struct {
	cfg    Config
	log    hclog.Logger
	node   *node.Node
	certs  *mtls.Certificates // nil without TLS
	http   net.Listener       // nil without HTTP
	source *statusSource

	httpCerts       *mtls.Certificates // nil without HTTPS
	api             http.Handler       // nil without HTTP
	certificateUses []certificateUse   // all certificates

	server    *httpapi.Server
	etcd      *embedetcd.Server
	tcpClient *clientv3.Client // connection to the embedded etcd over TCP, nil if it is used in process
	cluster   *cluster.Cluster
}

// New checks the configuration, reads the certificates, binds the port of the status API, which Run frees, and checks
// that the node's port can be bound, as node.NewNode does. Errors are one line and name goversed's flags.
func New(cfg Config) (*Daemon, error) {
	cfg.Logger = logqueue.New(cfg.Logger)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &Daemon{cfg: cfg, log: cfg.Logger}
	if err := d.bindPorts(); err != nil {
		d.closeCertificates()
		if d.http != nil {
			_ = d.http.Close() // nothing can be done about an error
		}
		return nil, err
	}
	return d, nil
}

func (d *Daemon) bindPorts() error {
	nodeConfig, err := d.secureNode(d.cfg.nodeConfig())
	if err != nil {
		return err
	}
	if err := errors.Join(d.secureEtcd(), d.watchPeerCertificates()); err != nil {
		return err
	}
	if d.cfg.HTTP != "" {
		if err := d.secureHTTP(); err != nil {
			return err
		}
		if d.http, err = net.Listen("tcp", d.cfg.HTTP); err != nil {
			return httpError(d.cfg.HTTP, err)
		}
	}
	admin, err := d.adminConfig()
	if err != nil {
		return err
	}
	nodeConfig.Logger = d.log.Named("node")
	if d.node, err = node.NewNode(nodeConfig); err != nil {
		return listenError(d.cfg.Listen, err)
	}
	d.source = newStatusSource(d.node.AdvertiseAddress())
	if d.http != nil {
		d.api = httpapi.New(d.source, httpapi.Options{Version: d.cfg.Cluster.Version, Admin: admin,
			Certificates: d.certificateExpiries})
	}
	return nil
}

// NodeAddress returns the node's advertise address, which is its name in the cluster.
func (d *Daemon) NodeAddress() string { return d.node.AdvertiseAddress() }

// HTTPAddress returns the address at which other machines reach the status API, with the port that was actually
// bound. It returns "" without HTTP.
func (d *Daemon) HTTPAddress() string {
	if d.http == nil {
		return ""
	}
	return reachableAddress(d.http.Addr().String(), d.NodeAddress())
}

// httpURL returns the address of the status API that the node publishes in the cluster: host:port, or a URL
// with HTTPS.
func (d *Daemon) httpURL() string {
	if d.httpCerts == nil {
		return d.HTTPAddress()
	}
	return "https://" + d.HTTPAddress()
}

// reachableAddress returns the form of a bound address that other machines can use. If the address is bound on every
// interface, its host is replaced by the host of the advertise address.
func reachableAddress(bound, advertise string) string {
	host, port, err := net.SplitHostPort(bound)
	if ip, perr := netip.ParseAddr(host); err != nil || perr != nil || !ip.IsUnspecified() {
		return bound
	}
	named, _, err := net.SplitHostPort(advertise)
	if err != nil {
		return bound
	}
	return net.JoinHostPort(named, port)
}

// Run starts all parts and blocks until ctx ends, a part fails, or the start fails. It then stops the running
// parts in order and returns after all of them have ended. When ctx ends, Run stops gracefully; when cut ends,
// it stops without waiting.
//
// Run returns nil after a complete graceful stop, even if the stop was requested during the start. Its error
// matches ErrStopCut if the stop was cut short, ErrStartTimeout if the start took too long although etcd answered,
// and cluster.CutShortError if etcd did not confirm that this node's keys are deleted.
func (d *Daemon) Run(ctx, cut context.Context) error {
	defer logqueue.Flush(cut, d.log)
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if d.http != nil {
		listener, says := d.http, "serving http"
		if d.httpCerts != nil {
			listener, says = tls.NewListener(d.http, d.httpCerts.ServerTLS()), "serving https"
		}
		d.server = httpapi.Serve(listener, d.api, d.log.Named("http"))
		d.log.Info(says, "address", d.server.Address())
	}
	joined, err := d.start(run, fail)
	if err == nil {
		<-run.Done()
		err = context.Cause(run)
	}
	if ctx.Err() != nil {
		err = nil // the stop was requested
	}
	fail(nil)
	joined()
	return errors.Join(err, d.stop(ctx, cut))
}

// start starts the parts. The function it returns joins the goroutines that watch them; call it after run has
// ended.
func (d *Daemon) start(run context.Context, fail context.CancelCauseFunc) (joined func(), err error) {
	guards := newRunGroup(run, fail)
	joined = guards.waitTracked
	if d.server != nil {
		guards.endRunOn(d.server.Done(), d.server.Err)
	}
	starting := run
	if d.cfg.StartTimeout > 0 {
		var cancel context.CancelFunc
		starting, cancel = context.WithTimeoutCause(run, d.cfg.StartTimeout, ErrStartTimeout)
		defer cancel()
	}
	cfg := d.cfg.Cluster
	cfg.HTTPAddress, cfg.Logger = d.httpURL(), d.log
	if d.certs != nil {
		cfg.DialOptions = append(slices.Clone(cfg.DialOptions), d.certs.DialOption())
	}
	if d.cfg.embedsEtcd() {
		if err := d.startEtcd(starting); err != nil {
			return joined, err
		}
		d.logEtcdAddress()
		guards.endRunOn(d.etcd.Done(), func() error { err, _ := memberError(d.cfg.Etcd, d.etcd.Err()); return err })
		cfg.Client, cfg.EtcdAddress = d.etcd.Client(), d.etcd.Endpoint()
		if d.cfg.dialsEtcd() {
			if d.tcpClient, err = d.dialEtcd(starting, cfg); err != nil {
				return joined, err
			}
			cfg.Client = d.tcpClient
			guards.goTracked(func() { d.followMembers(run) })
		}
	}
	c, err := cluster.NewClusterWithNode(cfg, d.node)
	if err != nil {
		return joined, err
	}
	d.cluster = c
	d.source.setCluster(c)
	if err := c.Start(connect.WithSettingNames(starting, connect.FlagNames)); err != nil {
		if cause := context.Cause(run); cause != nil {
			return joined, cause // a part failed meanwhile, or the stop was requested
		}
		return joined, joinError(d.cfg, err)
	}
	guards.endRunOn(d.node.Done(), d.node.Err)
	return joined, nil
}

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

// A Daemon is one node process. New makes it, Run runs it once.
type Daemon struct {
	cfg    Config
	log    hclog.Logger
	node   *node.Node
	certs  *mtls.Certificates // nil without TLS
	http   net.Listener       // nil without HTTP
	source *source

	httpCerts *mtls.Certificates // nil without HTTPS
	api       http.Handler       // nil without HTTP
	opened    []opened           // all certificates

	server  *httpapi.Server
	etcd    *embedetcd.Server
	dialled *clientv3.Client // of the embedded etcd, nil where it is used in process
	cluster *cluster.Cluster
}

// New checks the configuration, reads the certificates and binds the ports. Run frees them.
// Errors are one line and name goversed's flags.
func New(cfg Config) (*Daemon, error) {
	cfg.Logger = logqueue.New(cfg.Logger)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &Daemon{cfg: cfg, log: cfg.Logger}
	if err := d.bind(); err != nil {
		d.closeCertificates()
		if d.http != nil {
			_ = d.http.Close() // nothing can be done about it
		}
		return nil, err
	}
	return d, nil
}

// bind reads the certificates and binds the ports.
func (d *Daemon) bind() error {
	nodeConfig, err := d.secure(d.cfg.node())
	if err != nil {
		return err
	}
	if err := errors.Join(d.secureEtcd(), d.watchEmbedded()); err != nil {
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
	admin, err := d.admin()
	if err != nil {
		return err
	}
	nodeConfig.Logger = d.log.Named("node")
	if d.node, err = node.NewNode(nodeConfig); err != nil {
		return listenError(d.cfg.Listen, err)
	}
	d.source = newSource(d.node.AdvertiseAddress())
	if d.http != nil {
		d.api = httpapi.New(d.source, httpapi.Options{Version: d.cfg.Cluster.Version, Admin: admin,
			Certificates: d.expiries})
	}
	return nil
}

// NodeAddress is the node's advertise address, its name in the cluster.
func (d *Daemon) NodeAddress() string { return d.node.AdvertiseAddress() }

// HTTPAddress is where others reach the status API, with the port that was really
// bound; "" without HTTP.
func (d *Daemon) HTTPAddress() string {
	if d.http == nil {
		return ""
	}
	return reachable(d.http.Addr().String(), d.NodeAddress())
}

// httpURL is what other nodes know of the status API: host:port, or with HTTPS a URL.
func (d *Daemon) httpURL() string {
	if d.httpCerts == nil {
		return d.HTTPAddress()
	}
	return "https://" + d.HTTPAddress()
}

// reachable is a bound address as others can use it. One bound on every interface
// takes the host by which the node is known, which means this machine to others.
func reachable(bound, advertise string) string {
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

// Run runs everything until ctx ends, a part fails, or the start fails; then it
// stops what runs, in order, and returns when nothing of it is left. The end of
// ctx asks for a graceful stop, and the end of cut for one without waiting. The
// result is nil after a complete graceful stop, also one that was asked for during
// the start; it matches ErrCut if the stop was cut short, ErrStartTimeout if the start
// took too long though etcd answered, and cluster.CutShortError if etcd did not
// confirm that this node's keys are gone.
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
		err = nil // asked for
	}
	fail(nil)
	joined()
	return errors.Join(err, d.stop(ctx, cut))
}

// start brings the parts up. The function it returns joins what watches them, once
// run has ended.
func (d *Daemon) start(run context.Context, fail context.CancelCauseFunc) (joined func(), err error) {
	guards := newGuards(run, fail)
	joined = guards.wait
	if d.server != nil {
		guards.watch(d.server.Done(), d.server.Err)
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
	if d.cfg.embedded() {
		if err := d.startEtcd(starting); err != nil {
			return joined, err
		}
		d.sayEtcd()
		guards.watch(d.etcd.Done(), func() error { err, _ := memberError(d.cfg.Etcd, d.etcd.Err()); return err })
		cfg.Client, cfg.EtcdAddress = d.etcd.Client(), d.etcd.Endpoint()
		if d.cfg.dials() {
			if d.dialled, err = d.dial(starting, cfg); err != nil {
				return joined, err
			}
			cfg.Client = d.dialled
			guards.goes(func() { d.followMembers(run) })
		}
	}
	c, err := cluster.NewClusterWithNode(cfg, d.node)
	if err != nil {
		return joined, err
	}
	d.cluster = c
	d.source.set(c)
	if err := c.Start(connect.WithWords(starting, connect.Flags)); err != nil {
		if cause := context.Cause(run); cause != nil {
			return joined, cause // a part failed meanwhile, or it was asked for
		}
		return joined, joinError(cfg, err)
	}
	guards.watch(d.node.Done(), d.node.Err)
	return joined, nil
}

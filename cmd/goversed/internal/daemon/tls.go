package daemon

import (
	"errors"
	"fmt"
	"net"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// httpTLSFlags, serveFlags and peerFlags map the fields of mtls.Config to the flags of the certificates of the status
// API, and of those for the clients and peers of the embedded etcd.
var (
	httpTLSFlags = map[string]string{"CertFile": "--http-cert", "KeyFile": "--http-key", "CAFile": "--http-client-ca"}
	serveFlags   = map[string]string{"CertFile": "--etcd-serve-cert", "KeyFile": "--etcd-serve-key",
		"CAFile": "--etcd-serve-ca"}
	peerFlags = map[string]string{"CertFile": "--etcd-peer-cert", "KeyFile": "--etcd-peer-key", "CAFile": "--etcd-peer-ca"}
	// NodeTLSFlags and EtcdTLSFlags map these fields to the flags of the node's certificates, and of those for
	// connections to etcd.
	NodeTLSFlags = map[string]string{"CertFile": "--node-cert", "KeyFile": "--node-key", "CAFile": "--node-ca"}
	EtcdTLSFlags = map[string]string{"CertFile": "--etcd-cert", "KeyFile": "--etcd-key", "CAFile": "--etcd-cacert"}
)

// ValidateNodeTLS checks that all files of the node's certificates are named, or none of them.
func ValidateNodeTLS(c mtls.Config) error {
	named := c.CertFile != "" || c.KeyFile != "" || c.CAFile != ""
	if named && (c.CertFile == "" || c.KeyFile == "" || c.CAFile == "") {
		return errors.New("--node-cert, --node-key and --node-ca belong together: give all three")
	}
	return nil
}

// secureNode reads the node's certificates, if there are any, and returns the node's configuration with them.
func (d *Daemon) secureNode(cfg node.Config) (node.Config, error) {
	if d.cfg.TLS.CertFile == "" {
		return cfg, nil
	}
	tls := d.cfg.TLS
	known := d.cfg.Advertise
	if known == "" {
		known = d.cfg.Listen
	}
	host, _, err := net.SplitHostPort(known)
	if err != nil {
		return cfg, err // Validate rejects such an address
	}
	tls.Host = host
	if d.certs, err = d.openCertificates("node", "tls", tls, NodeTLSFlags); err != nil {
		return cfg, err
	}
	cfg.ServerOptions = append(cfg.ServerOptions, d.certs.ServerOption())
	return cfg, nil
}

// secureHTTP reads the certificates of the status API, if there are any.
func (d *Daemon) secureHTTP() (err error) {
	tls := d.cfg.HTTPTLS
	if tls.CertFile == "" {
		return nil
	}
	tls.ServerOnly = true
	d.httpCerts, err = d.openCertificates("http", "http", tls, httpTLSFlags)
	return err
}

// secureEtcd reads the certificates for the connections to etcd, if there are any. By default these are the
// files of the embedded etcd, and its own certificate serves as the client's.
func (d *Daemon) secureEtcd() error {
	files, flags, use := d.cfg.EtcdTLS, EtcdTLSFlags, "etcd-client"
	if none := files.CertFile == "" && files.CAFile == ""; none && d.cfg.embedsEtcd() {
		serve := d.cfg.Etcd.ClientTLS
		files = mtls.Config{CertFile: serve.CertFile, KeyFile: serve.KeyFile, CAFile: serve.CAFile}
		flags, use = serveFlags, "etcd-serve"
	}
	if files.CertFile == "" && files.CAFile == "" || d.cfg.Cluster.TLS != nil || d.cfg.Cluster.CurrentTLS != nil {
		return nil
	}
	files.ForEtcd = true
	if use == "etcd-serve" {
		files.Replaced = d.replacementCallback(serveFlags)
	}
	certs, err := d.openCertificates(use, "etcd-tls", files, flags)
	if err != nil {
		return err
	}
	d.cfg.Cluster.CurrentTLS = certs.EtcdTLS
	return nil
}

// watchPeerCertificates opens the peer certificates of the embedded etcd, so that their changes are noticed. Nothing
// else in this process watches them.
func (d *Daemon) watchPeerCertificates() error {
	if !d.cfg.embedsEtcd() {
		return nil
	}
	if peer := d.cfg.Etcd.PeerTLS; peer.CertFile != "" {
		files := mtls.Config{CertFile: peer.CertFile, KeyFile: peer.KeyFile, CAFile: peer.CAFile, ForEtcd: true,
			Replaced: d.replacementCallback(peerFlags)}
		if _, err := d.openCertificates("etcd-peer", "etcd-tls", files, peerFlags); err != nil {
			return err
		}
	}
	return nil
}

// replacementCallback returns a callback for certificate files of the embedded etcd. That etcd reads its certificate at
// each handshake, but its authorities only when it starts.
func (d *Daemon) replacementCallback(flags map[string]string) func(authorities bool) {
	return func(authorities bool) {
		if authorities {
			d.log.Warn("the embedded etcd goes on with the former authorities of "+flags["CAFile"]+
				" until it starts again: restart the nodes that embed etcd, one after the other", "flag", flags["CAFile"])
		}
	}
}

// certificateUse holds certificates that are kept current while the daemon runs.
type certificateUse struct {
	use   string
	certs *mtls.Certificates
	flags map[string]string
}

// openCertificates reads certificates and starts to watch their files.
func (d *Daemon) openCertificates(use, log string, cfg mtls.Config, flags map[string]string) (*mtls.Certificates,
	error) {
	cfg.Logger = d.log.Named(log)
	certs, err := mtls.New(cfg)
	if err != nil {
		return nil, NameFile(err, flags)
	}
	d.certificateUses = append(d.certificateUses, certificateUse{use, certs, flags})
	return certs, nil
}

// Reload reads the certificates and the password again now. This also happens by itself when their files
// change. If new files cannot be used, the former certificates stay in use and a line is logged. Reload only
// blocks while it reads, and may be called at any time.
func (d *Daemon) Reload() {
	for _, o := range d.certificateUses {
		if err := o.certs.Reload(); err != nil {
			d.log.Warn("new certificate files cannot be used, the former certificates stay in use", "error",
				NameFile(err, o.flags))
		}
	}
	if ask := d.cfg.Cluster.Credentials; ask != nil {
		if _, _, err := ask(); err != nil {
			d.log.Warn("there is no password to log in to etcd with", "error", err)
		}
	}
	d.log.Info("certificate and password files were read again on request")
}

// certificateExpiries returns the expiry times of all certificates in use, for the metrics.
func (d *Daemon) certificateExpiries() (out []httpapi.Certificate) {
	for _, o := range d.certificateUses {
		for _, e := range o.certs.Expiries() {
			out = append(out, httpapi.Certificate{Use: o.use, File: e.File, NotAfter: e.NotAfter})
		}
	}
	return out
}

func (d *Daemon) closeCertificates() {
	for _, o := range d.certificateUses {
		o.certs.Close()
	}
}

// NameFile rewrites an error of mtls.New, which names a field, so that it names the flag of that field.
func NameFile(err error, flags map[string]string) error {
	if wrong, ok := errors.AsType[*mtls.FileError](err); ok {
		return newFlagError(err, "%s %s: %v", flags[wrong.Field], wrong.File, wrong.Err)
	}
	return fmt.Errorf("%s, %s and %s: %w", flags["CertFile"], flags["KeyFile"], flags["CAFile"], err)
}

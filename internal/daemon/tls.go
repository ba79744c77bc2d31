package daemon

import (
	"errors"
	"fmt"
	"net"

	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// tlsFlags are the flags of the fields of mtls.Config; httpTLSFlags are those for HTTP.
var (
	tlsFlags     = map[string]string{"CertFile": "--node-cert", "KeyFile": "--node-key", "CAFile": "--node-ca"}
	httpTLSFlags = map[string]string{"CertFile": "--http-cert", "KeyFile": "--http-key", "CAFile": "--http-client-ca"}
)

// validateTLS reports what can be seen without reading the files.
func (c Config) validateTLS() error {
	if named := c.TLS.CertFile != "" || c.TLS.KeyFile != "" || c.TLS.CAFile != ""; !named {
		return nil
	}
	if c.TLS.CertFile == "" || c.TLS.KeyFile == "" || c.TLS.CAFile == "" {
		return errors.New("--node-cert, --node-key and --node-ca belong together: give all three")
	}
	return nil
}

// secure reads the certificates, if there are any, and returns the node's configuration with them.
func (d *Daemon) secure(cfg node.Config) (node.Config, error) {
	if d.cfg.TLS.CertFile == "" {
		return cfg, nil
	}
	tls := d.cfg.TLS
	tls.Logger = d.log.Named("tls")
	known := d.cfg.Advertise
	if known == "" {
		known = d.cfg.Listen
	}
	host, _, err := net.SplitHostPort(known)
	if err != nil {
		return cfg, err // Validate would have found it
	}
	tls.Host = host
	if d.certs, err = mtls.New(tls); err != nil {
		return cfg, tlsError(err, tlsFlags)
	}
	cfg.ServerOptions = append(cfg.ServerOptions, d.certs.ServerOption())
	return cfg, nil
}

// secureHTTP reads the certificates of the status API, if there are any.
func (d *Daemon) secureHTTP() error {
	tls := d.cfg.HTTPTLS
	if tls.CertFile == "" {
		return nil
	}
	tls.ServerOnly, tls.Logger = true, d.log.Named("http")
	var err error
	if d.httpCerts, err = mtls.New(tls); err != nil {
		return tlsError(err, httpTLSFlags)
	}
	return nil
}

func (d *Daemon) closeCertificates() {
	for _, certs := range []*mtls.Certificates{d.certs, d.httpCerts} {
		if certs != nil {
			certs.Close()
		}
	}
}

func tlsError(err error, flags map[string]string) error {
	if wrong, ok := errors.AsType[*mtls.FileError](err); ok {
		return sayAnew(err, "%s %s: %v", flags[wrong.Field], wrong.File, wrong.Err)
	}
	return fmt.Errorf("%s, %s and %s: %w", flags["CertFile"], flags["KeyFile"], flags["CAFile"], err)
}

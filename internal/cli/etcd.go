package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster"
)

// Etcd holds the flags that say where etcd is and how to talk to it.
type Etcd struct {
	Address, Prefix   string
	User, Password    string
	CACert, Cert, Key string
}

// Register adds the flags to fs; address is the default of --etcd, and usage its
// help.
func (e *Etcd) Register(fs *pflag.FlagSet, address, usage string) {
	fs.StringVar(&e.Address, "etcd", address, usage)
	fs.StringVar(&e.Prefix, "prefix", "/goverse", "where the cluster lies in etcd; the same for all its nodes")
	fs.StringVar(&e.User, "etcd-user", "", "user for etcd's access control")
	fs.StringVar(&e.Password, "etcd-password", "", "password of that user; better given as the variable, which process lists do not show")
	fs.StringVar(&e.CACert, "etcd-cacert", "", "PEM `file` with the authorities that may have signed etcd's certificate")
	fs.StringVar(&e.Cert, "etcd-cert", "", "PEM `file` with the certificate to show to etcd")
	fs.StringVar(&e.Key, "etcd-key", "", "PEM `file` with the key of that certificate")
}

// AccessFlags are the names of the flags that only matter for an etcd elsewhere.
func AccessFlags() []string {
	return []string{"etcd-user", "etcd-password", "etcd-cacert", "etcd-cert", "etcd-key"}
}

// Apply puts the flags into cfg. It reads the certificate files.
func (e *Etcd) Apply(cfg *cluster.Config) error {
	if e.Prefix == "" {
		return errors.New("--prefix is empty: use something like /goverse")
	}
	if e.Password != "" && e.User == "" {
		return errors.New("--etcd-password is given without --etcd-user: give both")
	}
	config, err := e.tls()
	if err != nil {
		return err
	}
	cfg.EtcdAddress, cfg.EtcdPrefix = e.Address, e.Prefix
	cfg.Username, cfg.Password, cfg.TLS = e.User, e.Password, config
	return nil
}

// tls is nil unless a certificate file was named.
func (e *Etcd) tls() (*tls.Config, error) {
	if (e.Cert == "") != (e.Key == "") {
		return nil, errors.New("--etcd-cert and --etcd-key belong together: give both")
	}
	if e.CACert == "" && e.Cert == "" {
		return nil, nil
	}
	// The client would leave TLS out for such an address, without a word.
	if strings.Contains(e.Address, "http://") {
		return nil, fmt.Errorf("--etcd %s would not be encrypted although certificates are given: write https://", e.Address)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CACert != "" {
		pem, err := os.ReadFile(e.CACert)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cacert: name a file that this user may read (%w)", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cacert: %s holds no PEM certificate: name the authority's certificate file", e.CACert)
		}
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cert and --etcd-key: name PEM files that belong together (%w)", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/state"
)

// etcdFlags holds the flags that say where etcd is and how to talk to it.
type etcdFlags struct {
	address, prefix   string
	user, password    string
	passwordFile      string
	caCert, cert, key string
}

// register adds the flags to fs; address is the default of --etcd, and usage its
// help.
func (e *etcdFlags) register(fs *pflag.FlagSet, address, usage string) {
	fs.StringVar(&e.address, "etcd", address, usage)
	fs.StringVar(&e.prefix, "prefix", "/goverse", "where the cluster lies in etcd; the same for all its nodes")
	fs.StringVar(&e.user, "etcd-user", "", "user for etcd's access control")
	fs.StringVar(&e.password, "etcd-password", "", "password of that user; better given as the variable, which process "+
		"lists do not show")
	fs.StringVar(&e.passwordFile, "etcd-password-file", "",
		"`file` with that password, read again at each log-in: it can change while this runs")
	fs.StringVar(&e.caCert, "etcd-cacert", "", "PEM `file` with the authorities that may have signed etcd's certificate")
	fs.StringVar(&e.cert, "etcd-cert", "", "PEM `file` with the certificate to show to etcd")
	fs.StringVar(&e.key, "etcd-key", "", "PEM `file` with the key of that certificate")
}

// certFlags are the names of the flags that only matter for an etcd with TLS.
func certFlags() []string { return []string{"etcd-cacert", "etcd-cert", "etcd-key"} }

// apply puts the flags into cfg. It reads the certificate files.
func (e *etcdFlags) apply(cfg *cluster.Config) error {
	err := e.applyNames(cfg)
	if err == nil {
		cfg.TLS, err = e.tls()
	}
	return err
}

// applyNames is apply without the certificate files: errors are of the command line.
func (e *etcdFlags) applyNames(cfg *cluster.Config) error {
	if e.prefix == "" {
		return errors.New("--prefix is empty: use something like /goverse")
	}
	if strings.HasSuffix(e.prefix, "/") {
		use := strings.TrimRight(e.prefix, "/")
		if use == "" {
			use = "something like /goverse"
		}
		return fmt.Errorf("--prefix %s must not end with a slash: use %s", e.prefix, use)
	}
	if err := e.checkUser(); err != nil {
		return err
	}
	if (e.cert == "") != (e.key == "") {
		return errors.New("--etcd-cert and --etcd-key belong together: give both")
	}
	// The client would leave TLS out for such an address, without a word.
	if (e.caCert != "" || e.cert != "") && strings.Contains(e.address, "http://") {
		return fmt.Errorf("--etcd %s would not be encrypted although certificates are given: write https://", e.address)
	}
	cfg.EtcdAddress, cfg.EtcdPrefix = e.address, e.prefix
	cfg.Username, cfg.Password = e.user, e.password
	if e.passwordFile != "" {
		cfg.Credentials = func() (string, string, error) {
			password, err := readPassword(e.passwordFile)
			return e.user, password, err
		}
	}
	return nil
}

// checkUser reports what is wrong with the user and password.
func (e *etcdFlags) checkUser() error {
	switch {
	case e.password != "" && e.passwordFile != "":
		return errors.New("--etcd-password and --etcd-password-file are both given: give one of them")
	case e.password != "" && e.user == "":
		return errors.New("--etcd-password is given without --etcd-user: give both")
	case e.passwordFile != "" && e.user == "":
		return errors.New("--etcd-password-file is given without --etcd-user: give both")
	case e.passwordFile != "":
		_, err := readPassword(e.passwordFile)
		return err
	case e.user != "" && e.password == "": // etcd's client would go on as nobody
		return errors.New("--etcd-user is given without a password: give it as GOVERSE_ETCD_PASSWORD, or " +
			"--etcd-password-file")
	}
	return nil
}

// readPassword is the first line of a file.
func readPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--etcd-password-file: name a file that this user may read (%w)", err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("--etcd-password-file: %s begins with an empty line: put the password there", path)
	}
	return password, nil
}

// tls is what the certificate files hold, nil unless one was named.
func (e *etcdFlags) tls() (*tls.Config, error) {
	if e.caCert == "" && e.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.caCert != "" {
		pem, err := os.ReadFile(e.caCert)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cacert: name a file that this user may read (%w)", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cacert: %s holds no PEM certificate: name the authority's certificate file", e.caCert)
		}
	}
	if e.cert != "" {
		pair, err := tls.LoadX509KeyPair(e.cert, e.key)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cert and --etcd-key: name PEM files that belong together (%w)", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// nameFlag says which flag a configuration error is about: packages name their
// fields, an operator knows flags.
func (e *etcdFlags) nameFlag(err error) error {
	switch {
	case errors.Is(err, cluster.ErrBadEtcdAddress):
		return fmt.Errorf("--etcd %s: write host:port, like 127.0.0.1:2379, several with commas between; http:// and "+
			"https:// are understood", e.address)
	case errors.Is(err, state.ErrBadPrefix):
		return fmt.Errorf("--prefix: %w", err)
	}
	return err
}

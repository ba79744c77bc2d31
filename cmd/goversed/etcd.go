package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/internal/etcd/login"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/node/mtls"
)

// etcdFlags holds the flags for the connection to etcd.
type etcdFlags struct {
	address, prefix   string
	user, password    string
	passwordFile      string
	caCert, cert, key string
	fixed             bool
	file              *login.PasswordFile // set by openPassword; nil without one
	certs             *mtls.Certificates  // set by openFiles; nil without one
}

// defaultEtcd is the default of --etcd for all commands that need an etcd. It is where the etcd of goversed node and
// goversed dev listens. Without --etcd, a node starts that etcd.
const defaultEtcd = "127.0.0.1:2379"

const etcdUsage = "`host:port` of etcd, several separated by commas; each may begin with http:// or https://"

// prefixUsage is the help of --prefix.
const prefixUsage = "prefix of the cluster's keys in etcd; the same for all its nodes"

var errEmptyEtcd = errors.New("--etcd is empty: give etcd's host:port, for example " + defaultEtcd)

// register adds the flags to fs. Address is the default of --etcd, and usage its help.
func (e *etcdFlags) register(fs *pflag.FlagSet, address, usage string) {
	fs.StringVar(&e.address, "etcd", address, usage)
	fs.StringVar(&e.prefix, "prefix", "/goverse", prefixUsage)
	fs.StringVar(&e.user, "etcd-user", "", "user name for etcd's access control")
	fs.StringVar(&e.password, "etcd-password", "", "password of that user; prefer the variable, because process lists "+
		"show flags")
	fs.StringVar(&e.passwordFile, "etcd-password-file", "",
		"`file` with that password; read again at each login, so it can change while goversed runs")
	fs.StringVar(&e.caCert, "etcd-cacert", "", "PEM `file` with the certificate authorities of etcd's certificate; "+
		"read again when it changes")
	fs.StringVar(&e.cert, "etcd-cert", "", "PEM `file` with a client certificate for etcd; read again when it changes")
	fs.StringVar(&e.key, "etcd-key", "", "PEM `file` with the key of that certificate")
	fs.BoolVar(&e.fixed, "etcd-fixed", false, "use only the addresses in --etcd, for an etcd behind a proxy or load "+
		"balancer (default: while one of them does not answer, also use those that etcd's members advertise)")
}

// certFlags returns the names of the flags that only matter with TLS.
func certFlags() []string { return []string{"etcd-cacert", "etcd-cert", "etcd-key"} }

// apply copies the flags into cfg. It reads the files, and keeps their content current until the returned function is
// called.
func (e *etcdFlags) apply(cfg *cluster.Config) (release func(), err error) {
	if err := e.applySettings(cfg); err != nil {
		return nil, err
	}
	return e.openFiles(cfg)
}

// openFiles is the part of apply that reads the files. Its errors do not concern the command line: a file may be there
// a moment later.
func (e *etcdFlags) openFiles(cfg *cluster.Config) (release func(), err error) {
	if err := e.openPassword(cfg.Logger); err != nil {
		return nil, err
	}
	files := e.tlsConfig()
	if files.CertFile == "" && files.CAFile == "" {
		return func() {}, nil
	}
	if cfg.Logger != nil {
		files.Logger = cfg.Logger.Named("etcd-tls")
	}
	if e.certs, err = mtls.New(files); err != nil {
		return nil, daemon.NameFile(err, daemon.EtcdTLSFlags)
	}
	cfg.CurrentTLS = e.certs.EtcdTLS
	return func() { _ = e.certs.Close() }, nil
}

// openPassword reads the file with the password, if there is one.
func (e *etcdFlags) openPassword(log hclog.Logger) (err error) {
	if e.passwordFile == "" {
		return nil
	}
	if e.file, err = login.OpenPasswordFile(e.passwordFile); err != nil {
		return fmt.Errorf("--etcd-password-file: %w", err)
	}
	e.file.SetLogger(log)
	return nil
}

// applySettings is apply without the files. Its errors concern the command line.
func (e *etcdFlags) applySettings(cfg *cluster.Config) error {
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
	// For such an address the client would silently use no TLS.
	if (e.caCert != "" || e.cert != "") && strings.Contains(e.address, "http://") {
		return fmt.Errorf("--etcd %s would not be encrypted although certificates are given: write https://", e.address)
	}
	cfg.EtcdAddress, cfg.EtcdPrefix, cfg.FixedEndpoints = e.address, e.prefix, e.fixed
	cfg.Username, cfg.Password = e.user, e.password
	if e.passwordFile != "" {
		cfg.Credentials = func() (string, string, error) {
			password, err := e.file.Password()
			return e.user, password, err
		}
	}
	return nil
}

func (e *etcdFlags) checkUser() error {
	switch {
	case e.password != "" && e.passwordFile != "":
		return errors.New("--etcd-password and --etcd-password-file are both given: give one of them")
	case e.password != "" && e.user == "":
		return errors.New("--etcd-password is given without --etcd-user: give both")
	case e.passwordFile != "" && e.user == "":
		return errors.New("--etcd-password-file is given without --etcd-user: give both")
	case e.user != "" && e.password == "" && e.passwordFile == "": // etcd's client would silently not log in
		return errors.New("--etcd-user is given without a password: give it as GOVERSE_ETCD_PASSWORD, or " +
			"--etcd-password-file")
	}
	return nil
}

func (e *etcdFlags) tlsConfig() mtls.Config {
	return mtls.Config{CertFile: e.cert, KeyFile: e.key, CAFile: e.caCert, ForEtcd: true}
}

// nameFlag rewrites a configuration error, which names a field, so that it names the flag.
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

// reloadFiles reads the files again, at SIGHUP.
func (e *etcdFlags) reloadFiles(log hclog.Logger) {
	if e.certs != nil {
		if err := e.certs.Reload(); err != nil {
			log.Warn("new certificate files cannot be used, the former certificates stay in use", "error",
				daemon.NameFile(err, daemon.EtcdTLSFlags))
		}
	}
	if e.file != nil {
		_, _ = e.file.Password() // logs changes and errors itself
	}
}

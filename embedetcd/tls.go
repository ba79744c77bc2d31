package embedetcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// TLS names the PEM files for either client or peer connections of etcd. The certificate and the key are read
// again at each handshake, so they can be replaced while the server runs; the authorities are read at the
// start. The host names in a client's certificate are not checked: all certificates of the authorities count
// the same.
type TLS struct {
	// CertFile and KeyFile are the server's certificate and its key, which must belong together.
	CertFile, KeyFile string
	// CAFile holds the authorities that sign the other side's certificates.
	CAFile string
}

// A FileError reports a file in Config that cannot be used. It matches ErrConfig.
type FileError struct {
	Field string // for example "PeerTLS.CAFile"
	File  string
	Err   error
}

// Error returns a message with the field and the file.
func (e *FileError) Error() string {
	return fmt.Sprintf("embedetcd: %v: %s %s: %v", ErrConfig, e.Field, e.File, e.Err)
}

// Unwrap returns ErrConfig and the cause.
func (e *FileError) Unwrap() []error { return []error{ErrConfig, e.Err} }

var errNoCertificate = errors.New("it holds no PEM certificate: name the authorities' certificate file")

// enabled reports whether TLS is configured.
func (t TLS) enabled() bool { return t.CertFile != "" }

func (t TLS) scheme() string {
	if t.enabled() {
		return "https"
	}
	return "http"
}

// transportInfo returns the settings in etcd's form.
func (t TLS) transportInfo() transport.TLSInfo {
	if !t.enabled() {
		return transport.TLSInfo{}
	}
	return transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.CAFile,
		ClientCertAuth: t.CAFile != "", SkipClientSANVerify: true}
}

// validateTLS checks the settings without reading the files.
func (c Config) validateTLS() error {
	if t := c.ClientTLS; (t.CertFile == "") != (t.KeyFile == "") || t.CAFile != "" && t.CertFile == "" {
		return badConfig("ClientTLS needs CertFile and KeyFile, and only with them CAFile: set both, or none of the three")
	}
	t := c.PeerTLS
	if t != (TLS{}) && (t.CertFile == "" || t.KeyFile == "" || t.CAFile == "") {
		return badConfig("PeerTLS needs CertFile, KeyFile and CAFile: set all three, or none")
	}
	return nil
}

// readTLS checks the files. etcd would report their faults in its log only.
func (c Config) readTLS() error {
	if err := c.ClientTLS.readFiles("ClientTLS"); err != nil {
		return err
	}
	return c.PeerTLS.readFiles("PeerTLS")
}

func (t TLS) readFiles(field string) error {
	if !t.enabled() {
		return nil
	}
	for suffix, file := range map[string]string{".CertFile": t.CertFile, ".KeyFile": t.KeyFile} {
		if _, err := os.ReadFile(file); err != nil {
			return &FileError{field + suffix, file, fmt.Errorf("name a file that this user may read (%w)", err)}
		}
	}
	if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
		return &FileError{field + ".CertFile", t.CertFile, fmt.Errorf("name PEM files that belong together (%w)", err)}
	}
	if t.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return &FileError{field + ".CAFile", t.CAFile, fmt.Errorf("name a file that this user may read (%w)", err)}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return &FileError{field + ".CAFile", t.CAFile, errNoCertificate}
	}
	return nil
}

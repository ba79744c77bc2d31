package mtls

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
)

// DefaultInterval is the default interval at which the files are read. It is short because servers are often
// restarted right after a renewal, and their clients need the new files then.
const DefaultInterval = time.Second

// Config names the PEM files. The first three fields are required, except that CAFile is optional with
// ServerOnly, and all are optional with ForEtcd.
type Config struct {
	// CertFile has the certificate to present, followed by intermediate certificates if there are any.
	CertFile string
	// KeyFile has the private key of the certificate. It may be the same file.
	KeyFile string
	// CAFile has the authorities that may sign the certificates of other nodes and programs. It must include
	// the authority of this node's own certificate, because a node also calls itself.
	CAFile string

	// Host, if set, is a name or IP address for which the certificate must be valid: the host of the node's
	// advertise address. Certificates for other hosts are rejected like broken files.
	Host string
	// ClientOnly is for a program that only calls nodes. Its certificate need not be valid for servers.
	ClientOnly bool
	// ServerOnly is for a server other than a node's, such as an HTTP server: see Certificates.ServerTLS. Its
	// certificate may be signed by any authority, and need not be valid for clients. CAFile has the authorities
	// of its clients. A client certificate is verified if presented, but clients without one are served, too.
	// Without CAFile the server requests no certificate.
	ServerOnly bool
	// ForEtcd is for connections to etcd alone: see Certificates.EtcdTLS. Each file is optional, CertFile and
	// KeyFile together. Without CertFile no certificate is presented, and without CAFile the authorities of
	// this machine are trusted. The certificate may be signed by any authority.
	ForEtcd bool

	// Replaced, if set, is called when new content of the files is in use. Authorities reports whether the
	// authorities changed. It must return soon, because the files are not read meanwhile.
	Replaced func(authorities bool)

	// Interval is the interval at which the files are read. Default: DefaultInterval.
	Interval time.Duration
	// Logger receives a line when certificates were replaced, when new ones cannot be used, and when one is
	// about to expire. At level debug it also receives one line per refused connection. Nil disables logging.
	Logger hclog.Logger
}

// Validate checks what can be checked without reading a file. Its errors are one line and name the field.
func (c Config) Validate() error {
	for _, f := range []struct{ field, file, what string }{
		{"CertFile", c.CertFile, "certificate"},
		{"KeyFile", c.KeyFile, "certificate's private key"},
		{"CAFile", c.CAFile, "authorities' certificates"},
	} {
		if f.file == "" && !c.ForEtcd && !(c.ServerOnly && f.field == "CAFile") {
			return fmt.Errorf("mtls: %s is empty: name the PEM file with the %s", f.field, f.what)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("mtls: CertFile and KeyFile belong together: give both, or none for etcd")
	}
	switch {
	case c.ServerOnly && c.ClientOnly:
		return errors.New("mtls: ServerOnly and ClientOnly are both set: leave both out for a node")
	case c.ForEtcd && (c.ServerOnly || c.ClientOnly):
		return errors.New("mtls: ForEtcd is set beside ServerOnly or ClientOnly: leave these out for etcd")
	}
	if c.Interval < 0 {
		return fmt.Errorf("mtls: Interval %v is negative: leave it out, which means %v", c.Interval, DefaultInterval)
	}
	return nil
}

// ErrExpired is returned when a certificate has expired, wrapped in a FileError.
var ErrExpired = errors.New("it expired")

// FileError describes a problem with a file.
type FileError struct {
	// Field is the field of Config: CertFile, KeyFile or CAFile.
	Field string
	// File is the name of the file.
	File string
	// Err describes the problem and the remedy.
	Err error
}

// Error returns one line.
func (e *FileError) Error() string { return fmt.Sprintf("mtls: %s %s: %v", e.Field, e.File, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

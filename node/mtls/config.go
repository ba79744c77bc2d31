package mtls

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
)

// DefaultInterval is how often the files are looked at. What a renewal waits for is often a server that restarts at
// once, so it is short.
const DefaultInterval = time.Second

// Config names the files, which are PEM. The first three fields are required, but for CAFile with ServerOnly, and each
// with ForEtcd.
type Config struct {
	// CertFile has the certificate to show to others, and after it the intermediate ones, if there are any.
	CertFile string
	// KeyFile has the private key of the certificate. It may be the same file.
	KeyFile string
	// CAFile has the authorities that may have signed the certificates of others. Those of this one's own are
	// among them: a node calls itself, too.
	CAFile string

	// Host, if set, is a name or IP address that the certificate must be for: the host of the node's advertise
	// address. Certificates for others are refused as broken files are.
	Host string
	// ClientOnly is for a program that only calls nodes: its certificate need not be one for servers.
	ClientOnly bool
	// ServerOnly is for another server than a node's, such as one for HTTP: see Certificates.ServerTLS. Its certificate
	// may be of any authority, and need not be one for clients. CAFile has the authorities of its clients: those that
	// show a certificate are verified, and those that show none are served, too. Without CAFile none is asked for.
	ServerOnly bool
	// ForEtcd is for connections to etcd alone: see Certificates.EtcdTLS. Each file may be left out, CertFile and KeyFile
	// together. Without CertFile no certificate is shown, and without CAFile the authorities of this machine count. The
	// certificate may be of any authority.
	ForEtcd bool

	// Replaced, if set, is called when what the files hold has been replaced and is in use; authorities says whether
	// these changed. It must return soon: the files are not looked at meanwhile. Nil: nothing is called.
	Replaced func(authorities bool)

	// Interval is how often the files are looked at for changes. Default: DefaultInterval.
	Interval time.Duration
	// Logger gets a line when certificates were replaced, when they could not be, and when one is about to
	// expire; at level debug also one per connection that was refused. Nil: nothing is logged.
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

// ErrExpired: a certificate has expired. A FileError wraps it.
var ErrExpired = errors.New("it expired")

// FileError says what is wrong with a file.
type FileError struct {
	// Field is that of Config: CertFile, KeyFile or CAFile.
	Field string
	// File is the file's name.
	File string
	// Err is what is wrong, and the remedy.
	Err error
}

// Error is one line.
func (e *FileError) Error() string { return fmt.Sprintf("mtls: %s %s: %v", e.Field, e.File, e.Err) }

// Unwrap is what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

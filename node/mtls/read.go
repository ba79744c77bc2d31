package mtls

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// contents holds the files as read.
type contents struct{ cert, key, authorities []byte }

func (c Config) readFiles() (contents, error) {
	var held contents
	for _, f := range []struct {
		field, file string
		into        *[]byte
	}{
		{"CertFile", c.CertFile, &held.cert},
		{"KeyFile", c.KeyFile, &held.key},
		{"CAFile", c.CAFile, &held.authorities},
	} {
		if f.file == "" {
			continue // Validate accepts that it is missing
		}
		var err error
		if *f.into, err = os.ReadFile(f.file); err != nil {
			return contents{}, &FileError{Field: f.field, File: f.file,
				Err: fmt.Errorf("name a file that this user may read (%w)", err)}
		}
	}
	return held, nil
}

// hash returns a hash of the contents.
func (h contents) hash() [sha256.Size]byte {
	var sums []byte
	for _, part := range [][]byte{h.cert, h.key, h.authorities} {
		sum := sha256.Sum256(part)
		sums = append(sums, sum[:]...)
	}
	return sha256.Sum256(sums)
}

// generation is the result of one version of the files.
type generation struct {
	sum            [sha256.Size]byte
	leaf           *x509.Certificate // nil if no certificate is presented
	authorities    []*x509.Certificate
	server, client credentials.TransportCredentials
	otherTLS       *tls.Config // for servers other than a node's
	etcd           *tls.Config // for clients of etcd
}

// newGeneration creates the credentials. It rejects a certificate that other nodes would reject.
func (c Config) newGeneration(held contents, now time.Time) (*generation, error) {
	var authorities []*x509.Certificate
	if c.CAFile != "" {
		var err error
		if authorities, err = parseCertificates(held.authorities); err != nil {
			return nil, c.fileError("CAFile", "%w", err)
		}
	}
	pool := x509.NewCertPool()
	for _, authority := range authorities {
		pool.AddCert(authority)
	}
	if c.CertFile == "" {
		return &generation{sum: held.hash(), authorities: authorities, etcd: etcdTLS(pool, authorities)}, nil
	}
	chain, err := parseCertificates(held.cert)
	if err != nil {
		return nil, c.fileError("CertFile", "%w", err)
	}
	pair, err := tls.X509KeyPair(held.cert, held.key)
	if err != nil {
		return nil,
			c.fileError("KeyFile", "name the PEM file with the private key, without a password, of the certificate in "+
				"%s (%w)", c.CertFile, err)
	}
	leaf := chain[0]
	if err := c.checkChain(chain, pool, now); err != nil {
		return nil, err
	}
	if c.ForEtcd {
		return &generation{sum: held.hash(), leaf: leaf, authorities: authorities, etcd: etcdTLS(pool, authorities, pair)},
			nil
	}
	if c.ServerOnly {
		config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
			SessionTicketsDisabled: true, NextProtos: []string{"http/1.1"}}
		if c.CAFile != "" {
			config.ClientCAs, config.ClientAuth = pool, tls.VerifyClientCertIfGiven
		}
		return &generation{sum: held.hash(), leaf: leaf, authorities: authorities, otherTLS: config}, nil
	}
	// Without tickets every connection makes a full handshake, which verifies the current certificates.
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}
	return &generation{sum: held.hash(), leaf: leaf, authorities: authorities, server: credentials.NewTLS(config),
		client: credentials.NewTLS(config)}, nil
}

// etcdTLS returns the configuration of a connection to etcd. It allows TLS 1.2, because old versions of etcd
// need it.
func etcdTLS(pool *x509.CertPool, authorities []*x509.Certificate, shown ...tls.Certificate) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(authorities) > 0 {
		config.RootCAs = pool
	}
	if len(shown) > 0 {
		// Present the certificate even if etcd does not name its authority, so that etcd reports the refusal.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown[0], nil }
	}
	return config
}

// checkChain verifies the certificate like other nodes do.
func (c Config) checkChain(chain []*x509.Certificate, authorities *x509.CertPool, now time.Time) error {
	leaf := chain[0]
	switch {
	case now.After(leaf.NotAfter):
		return c.fileError("CertFile", "%w at %s: issue a new one", ErrExpired, formatUTC(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return c.fileError("CertFile", "it is not valid before %s: wait, or set this machine's clock",
			formatUTC(leaf.NotBefore))
	}
	if c.ForEtcd { // only etcd can verify it
		return nil
	}
	if c.ServerOnly { // only clients can verify it
		if c.Host != "" {
			if err := leaf.VerifyHostname(c.Host); err != nil {
				return c.fileError("CertFile", notForHost, c.Host, err)
			}
		}
		if !allowsServer(leaf) {
			return c.fileError("CertFile", "it is not for servers: issue one with the extended key usage serverAuth")
		}
		return nil
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	verify := func(use x509.ExtKeyUsage) error {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{use}})
		return err
	}
	if err := verify(x509.ExtKeyUsageAny); err != nil {
		return c.fileError("CertFile",
			"no authority in %s has signed it: put its authority there, and intermediate ones into "+
				"this file (%w)", c.CAFile, err)
	}
	if c.Host != "" {
		if err := leaf.VerifyHostname(c.Host); err != nil {
			return c.fileError("CertFile", notForHost, c.Host, err)
		}
	}
	if err := verify(x509.ExtKeyUsageClientAuth); err != nil {
		return c.fileError("CertFile", "it is not for clients: issue one with the extended key usage clientAuth (%w)", err)
	}
	if err := verify(x509.ExtKeyUsageServerAuth); err != nil && !c.ClientOnly {
		return c.fileError("CertFile",
			"it is not for servers: issue one with the extended key usages serverAuth and clientAuth "+
				"(%w)", err)
	}
	return nil
}

const notForHost = "it is not for %s, at which others call: issue one that has this among its subject alternative " +
	"names (%w)"

// allowsServer reports whether the extended key usages of a certificate allow a server. A certificate without any
// does.
func allowsServer(leaf *x509.Certificate) bool {
	return len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) == 0 ||
		slices.ContainsFunc(leaf.ExtKeyUsage, func(use x509.ExtKeyUsage) bool {
			return use == x509.ExtKeyUsageServerAuth || use == x509.ExtKeyUsageAny
		})
}

func formatUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (c Config) fileError(field, format string, args ...any) error {
	file := map[string]string{"CertFile": c.CertFile, "KeyFile": c.KeyFile, "CAFile": c.CAFile}[field]
	return &FileError{Field: field, File: file, Err: fmt.Errorf(format, args...)}
}

// parseCertificates returns the certificates in a file, at least one. Unlike x509.CertPool and tls.X509KeyPair it
// does not skip one that is broken or cut off, because that may be the one that matters.
func parseCertificates(text []byte) (all []*x509.Certificate, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue // a key, if one file has both
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it is broken: write the file anew (%w)", len(all)+1, err)
		}
		all = append(all, cert)
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, errors.New("it is cut off: write the file anew, to its end")
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no PEM certificate: name a file that begins with -----BEGIN CERTIFICATE-----")
	}
	return all, nil
}

// certificateHosts returns the hosts for which a certificate is valid.
func certificateHosts(cert *x509.Certificate) string {
	all := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	return strings.Join(all, ",")
}

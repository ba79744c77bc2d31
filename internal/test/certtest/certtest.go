// Package certtest creates certificate authorities and certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lastSerial is the serial number of the newest certificate of this process.
var lastSerial atomic.Int64

// Authority signs certificates.
type Authority struct {
	// PEM is its own certificate, for programs that trust it.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a certificate that an authority signed, with its key.
type Certificate struct {
	Serial *big.Int
	// Cert and Key are PEM-encoded.
	Cert, Key []byte
}

// NewAuthority creates a self-signed authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	ca := certificateTemplate("authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	ca.Subject.CommonName = "authority " + ca.SerialNumber.String()
	a.PEM, a.cert = signCertificate(t, ca, ca, a.key, a.key)
	return a
}

// Intermediate creates an authority signed by this one.
func (a *Authority) Intermediate(t testing.TB) *Authority {
	t.Helper()
	under := &Authority{key: newKey(t)}
	ca := certificateTemplate("intermediate")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	under.PEM, under.cert = signCertificate(t, ca, a.cert, under.key, a.key)
	return under
}

// Issue issues a certificate for hosts, which are names or IP addresses, for servers and clients. It is valid
// from an hour ago until an hour from now. Each alter function may change the certificate before it is signed.
func (a *Authority) Issue(t testing.TB, hosts []string, alter ...func(*x509.Certificate)) Certificate {
	t.Helper()
	cert := certificateTemplate("node")
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	for _, change := range alter {
		change(cert)
	}
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	text, _ := signCertificate(t, cert, a.cert, key, a.key)
	return Certificate{Serial: cert.SerialNumber, Cert: text, Key: encodePEM("PRIVATE KEY", der)}
}

// Files names the certificate files of one program, in a directory that is removed when the test ends.
type Files struct{ Cert, Key, CA string }

// NewFiles returns names of files that do not exist yet.
func NewFiles(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	return Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		CA: filepath.Join(dir, "ca.pem")}
}

// Write writes the certificate and its key.
func (f Files) Write(t testing.TB, c Certificate) {
	t.Helper()
	ReplaceFile(t, f.Cert, c.Cert)
	ReplaceFile(t, f.Key, c.Key)
}

// WriteCA writes the authorities' certificates into the CA file.
func (f Files) WriteCA(t testing.TB, authorities ...*Authority) {
	t.Helper()
	var all []byte
	for _, a := range authorities {
		all = append(all, a.PEM...)
	}
	ReplaceFile(t, f.CA, all)
}

// ReplaceFile replaces a file atomically: readers see either the old content or the new one.
func ReplaceFile(t testing.TB, file string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", text, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(lastSerial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func signCertificate(t testing.TB, cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) ([]byte,
	*x509.Certificate) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	signed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return encodePEM("CERTIFICATE", der), signed
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// KeyPEM returns the authority's own key, PEM-encoded.
func (a *Authority) KeyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	require.NoError(t, err)
	return encodePEM("PRIVATE KEY", der)
}

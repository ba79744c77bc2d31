//go:build unix

package procs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Certificates names the PEM files of an authority and of one certificate that it signed. The certificate is
// valid for clients and for a server at 127.0.0.1.
type Certificates struct{ CA, Cert, Key string }

// NewCertificates creates an authority and a certificate in files that are removed with the test.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	sign := func(cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
		cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
		require.NoError(t, err)
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return key
	}
	caKey, key := newKey(), newKey()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return Certificates{
		CA:   write("ca.pem", "CERTIFICATE", sign(ca, ca, caKey, caKey)),
		Cert: write("cert.pem", "CERTIFICATE", sign(cert, ca, key, caKey)),
		Key:  write("key.pem", "EC PRIVATE KEY", keyDER),
	}
}

// Config returns the configuration of a client that presents the certificate and trusts the authority.
func (c Certificates) Config(t testing.TB) *tls.Config {
	t.Helper()
	authority, err := os.ReadFile(c.CA)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	require.NoError(t, err)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// StartTLSEtcd starts etcd 3.4 with TLS for clients. It accepts only clients with a certificate of this
// authority. StartTLSEtcd returns the server's host:port once it answers. If etcd 3.4 is not installed, the
// test is skipped or fails as with StartEtcd.
func (k *Kit) StartTLSEtcd(t testing.TB, c Certificates) string {
	t.Helper()
	requireEtcd34(t, etcdPath, "etcd Version: 3.4.", "etcd-server", "--version")
	addresses := k.Addresses(t, 2)
	client, peer := addresses[0], "http://"+addresses[1]
	k.Start(t, "etcd 3.4 with TLS", etcdPath, []string{"--name=it", "--data-dir=" + t.TempDir(),
		"--cert-file=" + c.Cert, "--key-file=" + c.Key, "--trusted-ca-file=" + c.CA, "--client-cert-auth",
		"--listen-client-urls=https://" + client, "--advertise-client-urls=https://" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=it=" + peer}, nil)
	asking, err := clientv3.New(clientv3.Config{Endpoints: []string{client}, TLS: c.Config(t),
		DialTimeout: 5 * time.Second})
	require.NoError(t, err)
	defer func() { _ = asking.Close() }()
	Await(t, etcdStart, "etcd answers over TLS", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := asking.Get(ctx, "x")
		return err
	})
	return client
}

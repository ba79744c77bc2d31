package mtls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/node/mtls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient returns a context that ends with the test, or if the test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// config returns a configuration with these files, which are only read when a test asks for it.
func config(files certtest.Files) mtls.Config {
	return mtls.Config{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, Interval: time.Hour}
}

// files writes a certificate for hosts and returns its files.
func files(t *testing.T, a *certtest.Authority, hosts ...string) (certtest.Files, certtest.Certificate) {
	t.Helper()
	f, cert := certtest.NewFiles(t), a.Issue(t, hosts)
	f.Write(t, cert)
	f.WriteCA(t, a)
	return f, cert
}

// load calls mtls.New, and closes the result at the end of the test.
func load(t *testing.T, cfg mtls.Config) *mtls.Certificates {
	t.Helper()
	certs, err := mtls.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = certs.Close() })
	return certs
}

// client returns the TLS configuration of a program without package mtls.
func client(t *testing.T, trusted *certtest.Authority, shown ...certtest.Certificate) *tls.Config {
	t.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	require.True(t, cfg.RootCAs.AppendCertsFromPEM(trusted.PEM))
	for _, cert := range shown {
		pair, err := tls.X509KeyPair(cert.Cert, cert.Key)
		require.NoError(t, err)
		// Present it even if the server names only another authority.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

func over(cfg *tls.Config) grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(cfg))
}

// dial returns a connection that is closed at the end of the test.
func dial(t *testing.T, address string, option grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, option)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// shown returns the certificate that the server presents on a new connection to address.
func shown(t *testing.T, address string, cfg *tls.Config) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", address, cfg)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

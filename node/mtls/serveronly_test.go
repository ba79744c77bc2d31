package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/node/mtls"
)

// The certificates of an HTTP server are replaced while it runs. Clients that present a certificate are
// verified.
func TestServerOnly(t *testing.T) {
	t.Parallel()
	public, clients := certtest.NewAuthority(t), certtest.NewAuthority(t)
	f := certtest.NewFiles(t)
	onlyServer := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	f.Write(t, public.Issue(t, []string{"127.0.0.1"}, onlyServer))
	f.WriteCA(t, clients)
	certs, err := mtls.New(mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, ServerOnly: true,
		Interval: time.Millisecond})
	require.NoError(t, err)
	defer certs.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if len(r.TLS.VerifiedChains) > 0 {
			_, _ = io.WriteString(w, r.TLS.VerifiedChains[0][0].Subject.CommonName)
		}
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(l, certs.ServerTLS())) }()
	defer func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(public.PEM))
	get := func(shows ...certtest.Certificate) (serial, body string, err error) {
		config := &tls.Config{RootCAs: roots}
		for _, c := range shows {
			pair, err := tls.X509KeyPair(c.Cert, c.Key)
			require.NoError(t, err)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
		resp, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			return "", "", err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		return resp.TLS.PeerCertificates[0].SerialNumber.String(), string(text), err
	}
	named := func(c *x509.Certificate) { c.Subject.CommonName = "ops" }
	_, body, err := get()
	require.NoError(t, err)
	require.Empty(t, body, "without a certificate it is served")
	_, body, err = get(clients.Issue(t, nil, named))
	require.NoError(t, err)
	require.Equal(t, "ops", body)
	_, _, err = get(public.Issue(t, nil, named))
	require.Error(t, err, "one of another authority is refused")

	next := public.Issue(t, []string{"127.0.0.1"})
	f.Write(t, next)
	require.Eventually(t, func() bool {
		serial, _, err := get()
		return err == nil && serial == next.Serial.String()
	}, 20*time.Second, time.Millisecond)
	f.WriteCA(t, public)
	require.Eventually(t, func() bool {
		_, body, err := get(public.Issue(t, nil, named))
		return err == nil && body == "ops"
	}, 20*time.Second, 10*time.Millisecond)

	f.Write(t, public.Issue(t, []string{"127.0.0.1"}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}))
	require.ErrorContains(t, certs.Reload(), "it is not for servers")
	f.Write(t, next)
	none, err := mtls.New(mtls.Config{CertFile: f.Cert, KeyFile: f.Key, ServerOnly: true})
	require.NoError(t, err, "without an authority no certificate is asked for")
	none.Close()
	_, err = mtls.New(mtls.Config{CertFile: f.Cert, KeyFile: f.Key, ServerOnly: true, Host: "elsewhere"})
	require.ErrorContains(t, err, "it is not for elsewhere")
	require.ErrorContains(t, mtls.Config{CertFile: "a", KeyFile: "b", CAFile: "c", ServerOnly: true,
		ClientOnly: true}.Validate(), "both set")
	require.ErrorContains(t, mtls.Config{CertFile: "a", KeyFile: "b"}.Validate(), "CAFile is empty")
}

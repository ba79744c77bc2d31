package connect

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// noTimeout is a time-out that no test reaches, for what is certain to come on a busy machine too.
const noTimeout = time.Hour

// nowhere is an address of 127.0.0.1 at which no program listens.
const nowhere = "127.0.0.1:1"

// serveTCP calls answer for each connection, and returns the address.
func serveTCP(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serve(t, l, answer)
	return l.Addr().String()
}

// serve calls answer for each connection until the test ends, which closes the remaining ones.
func serve(t *testing.T, l net.Listener, answer func(conn net.Conn)) {
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	ended := false
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if ended {
				_ = conn.Close()
			}
			open[conn] = true
			mu.Unlock()
			serving.Go(func() {
				answer(conn)
				_ = conn.Close()
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		ended = true
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
}

// startWeb starts a web server.
func startWeb(t *testing.T) string {
	t.Helper()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

// startSecureWeb starts a web server that speaks HTTP/1 over TLS.
func startSecureWeb(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // receives failed handshakes
	web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	web.StartTLS()
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

// newCertificate returns a certificate for 127.0.0.1, with its authority.
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	authority := x509.NewCertPool()
	authority.AddCert(secure.Certificate())
	return secure.TLS.Certificates[0], authority
}

func serverTLS(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS12}
}

// startTLS puts TLS before the server at target, and returns the new address.
func startTLS(t *testing.T, target string, config *tls.Config) string {
	t.Helper()
	config.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	serve(t, l, func(conn net.Conn) {
		if conn.(*tls.Conn).HandshakeContext(t.Context()) != nil {
			return
		}
		relay(conn, target)
	})
	return l.Addr().String()
}

// relay copies both ways between a connection and target until either end closes.
func relay(conn net.Conn, target string) {
	behind, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, behind)
		_ = conn.Close()
	})
	_, _ = io.Copy(behind, conn)
	_ = behind.Close()
	back.Wait()
}

package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// server returns a node without a cluster that serves with the certificates.
func server(t *testing.T, listen string, certs *mtls.Certificates) *node.Node {
	t.Helper()
	n, err := node.NewNode(node.Config{ListenAddress: listen, ServerOptions: options(certs)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	require.NoError(t, n.Start())
	return n
}

func options(certs *mtls.Certificates) []grpc.ServerOption {
	return []grpc.ServerOption{certs.ServerOption()}
}

func identify(t *testing.T, n *node.Node, option grpc.DialOption) error {
	t.Helper()
	_, err := peer.Identify(patient(t), n.AdvertiseAddress(), option)
	return err
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	a, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	under := a.Intermediate(t)
	issue := func(alter func(*x509.Certificate)) func(certtest.Files) {
		return func(f certtest.Files) { f.Write(t, a.Issue(t, []string{"localhost"}, alter)) }
	}
	for name, c := range map[string]struct {
		spoil func(certtest.Files)
		field string
		says  string
	}{
		"no certificate": {func(f certtest.Files) { require.NoError(t, os.Remove(f.Cert)) }, "CertFile",
			"name a file that this user may read"},
		"no key": {func(f certtest.Files) { require.NoError(t, os.Remove(f.Key)) }, "KeyFile",
			"name a file that this user may read"},
		"no authority": {func(f certtest.Files) { require.NoError(t, os.Remove(f.CA)) }, "CAFile",
			"name a file that this user may read"},
		"an empty certificate": {func(f certtest.Files) { certtest.ReplaceFile(t, f.Cert, nil) }, "CertFile",
			"it holds no PEM certificate: name a file that begins with"},
		"a certificate that is cut off": {func(f certtest.Files) {
			text, err := os.ReadFile(f.Cert)
			require.NoError(t, err)
			certtest.ReplaceFile(t, f.Cert, text[:len(text)-40])
		}, "CertFile", "it is cut off: write the file anew"},
		"a second authority that is cut off": {func(f certtest.Files) {
			certtest.ReplaceFile(t, f.CA, append(append([]byte{}, a.PEM...), other.PEM[:200]...))
		}, "CAFile", "it is cut off: write the file anew"},
		"a broken authority": {func(f certtest.Files) {
			certtest.ReplaceFile(t, f.CA, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
		}, "CAFile", "certificate 1 in it is broken: write the file anew"},
		"another key": {func(f certtest.Files) { certtest.ReplaceFile(t, f.Key, a.Issue(t, nil).Key) }, "KeyFile",
			"name the PEM file with the private key, without a password, of the certificate in"},
		"another authority": {func(f certtest.Files) { f.WriteCA(t, other) }, "CertFile",
			"has signed it: put its authority there"},
		"no intermediate": {func(f certtest.Files) { f.Write(t, under.Issue(t, nil)) }, "CertFile",
			"and intermediate ones into this file"},
		"expired": {issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "CertFile",
			"it expired at"},
		"not valid yet": {issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "CertFile",
			"it is not valid before"},
		"for servers only": {issue(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), "CertFile",
			"it is not for clients: issue one with the extended key usage clientAuth"},
		"for clients only": {issue(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }), "CertFile",
			"it is not for servers: issue one with the extended key usages serverAuth and clientAuth"},
		"for another host": {issue(func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere"} }), "CertFile",
			"it is not for localhost, at which others call: issue one"},
	} {
		t.Run(name, func(t *testing.T) {
			f, cert := files(t, a, "localhost")
			cfg := config(f)
			cfg.Host = "localhost"
			certs := load(t, cfg)
			c.spoil(f)
			_, err := mtls.New(cfg)
			var wrong *mtls.FileError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, c.field, wrong.Field)
			require.Equal(t, map[string]string{"CertFile": f.Cert, "KeyFile": f.Key, "CAFile": f.CA}[c.field], wrong.File)
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), "\n")
			require.Contains(t, err.Error(), "mtls: "+c.field+" "+wrong.File+": ")

			require.EqualError(t, certs.Reload(), err.Error(), "the same as at the beginning")
			require.Equal(t, cert.Serial, certs.Leaf().SerialNumber, "and the former one stays in use")
		})
	}
}

func TestConfigThatCannotBeUsed(t *testing.T) {
	for says, cfg := range map[string]mtls.Config{
		"mtls: CertFile is empty: name the PEM file with the certificate":              {},
		"mtls: KeyFile is empty: name the PEM file with the certificate's private key": {CertFile: "c"},
		"mtls: CAFile is empty: name the PEM file with the authorities' certificates":  {CertFile: "c", KeyFile: "k"},
		"mtls: Interval -1s is negative: leave it out, which means 1s": {CertFile: "c", KeyFile: "k", CAFile: "a",
			Interval: -time.Second},
	} {
		_, err := mtls.New(cfg)
		require.EqualError(t, err, says)
	}
}

func TestAClientsCertificateNeedNotBeForServers(t *testing.T) {
	a := certtest.NewAuthority(t)
	f, _ := files(t, a, "127.0.0.1")
	n := server(t, "127.0.0.1:0", load(t, config(f)))
	f.Write(t, a.Issue(t, nil, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }))
	cfg := config(f)
	cfg.ClientOnly = true
	_, err := peer.Identify(patient(t), n.AdvertiseAddress(), load(t, cfg).DialOption())
	require.NoError(t, err)
}

func TestIntermediateAuthorities(t *testing.T) {
	a := certtest.NewAuthority(t)
	under := a.Intermediate(t)
	cert := under.Issue(t, []string{"127.0.0.1"})
	cert.Cert = append(cert.Cert, under.PEM...)
	f := certtest.NewFiles(t)
	f.Write(t, cert)
	f.WriteCA(t, a)
	certs := load(t, config(f))
	n := server(t, "127.0.0.1:0", certs)
	_, err := peer.Identify(patient(t), n.AdvertiseAddress(), certs.DialOption())
	require.NoError(t, err)
}

// One file may have both, as some programs write them.
func TestOneFileForCertificateAndKey(t *testing.T) {
	a := certtest.NewAuthority(t)
	f, cert := files(t, a, "127.0.0.1")
	certtest.ReplaceFile(t, f.Cert, append(append([]byte{}, cert.Key...), cert.Cert...))
	f.Key = f.Cert
	certs := load(t, config(f))
	n := server(t, "127.0.0.1:0", certs)
	_, err := peer.Identify(patient(t), n.AdvertiseAddress(), certs.DialOption())
	require.NoError(t, err)
}

// A node is called at its advertise address, and its certificate must be valid for that host.
func TestHostsOfCertificates(t *testing.T) {
	a := certtest.NewAuthority(t)
	for _, c := range []struct {
		host   string
		names  []string
		called bool
	}{
		{"localhost", []string{"localhost"}, true},
		{"localhost", []string{"elsewhere", "localhost"}, true},
		{"localhost", []string{"elsewhere"}, false},
		{"localhost", []string{"127.0.0.1", "::1"}, false},
		{"127.0.0.1", []string{"127.0.0.1"}, true},
		{"127.0.0.1", []string{"127.0.0.2", "localhost"}, false},
		{"::1", []string{"::1"}, true},
		{"::1", []string{"127.0.0.1"}, false},
	} {
		t.Run(fmt.Sprint(c.host, " as ", strings.Join(c.names, " ")), func(t *testing.T) {
			address := net.JoinHostPort(c.host, "0")
			if l, err := net.Listen("tcp", address); err != nil {
				t.Skip("this machine has no IPv6")
			} else {
				require.NoError(t, l.Close())
			}
			f, _ := files(t, a, c.names...)
			certs := load(t, config(f))
			n := server(t, address, certs)
			_, err := peer.Identify(patient(t), n.AdvertiseAddress(), certs.DialOption())
			if c.called {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, peer.ErrNoAnswer)
			require.NotErrorIs(t, err, peer.ErrRefused, "it proves nothing about the process")
			require.ErrorContains(t, err, "x509: ")
		})
	}
}

// A program that reaches a node by another name than its own sets the authority.
func TestAuthority(t *testing.T) {
	a := certtest.NewAuthority(t)
	f, _ := files(t, a, "node.example")
	certs := load(t, config(f))
	n := server(t, "127.0.0.1:0", certs)
	for authority, called := range map[string]bool{"node.example": true, "other.example": false} {
		conn, err := grpc.NewClient(n.AdvertiseAddress(), certs.DialOption(), grpc.WithAuthority(authority))
		require.NoError(t, err)
		_, err = healthpb.NewHealthClient(conn).Check(patient(t), &healthpb.HealthCheckRequest{})
		require.Equal(t, called, err == nil, err)
		require.NoError(t, conn.Close())
	}
}

// Files that are replaced while a node serves are read again without a request.
func TestFilesAreReadAgain(t *testing.T) {
	a := certtest.NewAuthority(t)
	f, first := files(t, a, "127.0.0.1")
	var log logtest.Buffer
	cfg := config(f)
	cfg.Interval, cfg.Logger = time.Millisecond, log.Logger()
	certs := load(t, cfg)
	n := server(t, "127.0.0.1:0", certs)
	caller := client(t, a, first)
	require.Equal(t, first.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber)
	log.Await(t, "certificates loaded: file="+f.Cert+" serial="+first.Serial.String()+" for=127.0.0.1 expires=")

	second := a.Issue(t, []string{"127.0.0.1"})
	f.Write(t, second)
	log.Await(t, "certificates replaced: new connections use them: file="+f.Cert+" serial="+second.Serial.String())
	require.Equal(t, second.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber)

	const kept = "[WARN]  new certificate files cannot be used, the former certificates stay in use: error="
	certtest.ReplaceFile(t, f.CA, []byte("broken"))
	broken := kept + `"mtls: CAFile ` + f.CA + ": it holds no PEM certificate"
	log.Await(t, broken)
	require.Equal(t, second.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber)
	_, err := peer.Identify(patient(t), n.AdvertiseAddress(), certs.DialOption())
	require.NoError(t, err)
	require.Equal(t, 1, log.Count(broken), log.String())

	// The directory is replaced like in Kubernetes: the files are links.
	third, dir := a.Issue(t, []string{"127.0.0.1"}), t.TempDir()
	elsewhere := certtest.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		CA: filepath.Join(dir, "ca.pem")}
	elsewhere.Write(t, third)
	elsewhere.WriteCA(t, a)
	for from, to := range map[string]string{f.Cert: elsewhere.Cert, f.Key: elsewhere.Key, f.CA: elsewhere.CA} {
		require.NoError(t, os.Symlink(to, from+".new"))
		require.NoError(t, os.Rename(from+".new", from))
	}
	log.Await(t, "serial="+third.Serial.String()+" ")
	require.Equal(t, third.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber)

	certs.Close()
	certs.Close()
	f.Write(t, first)
	require.Equal(t, third.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber, "nobody looks any more")
	require.NoError(t, certs.Reload())
	require.Equal(t, first.Serial, shown(t, n.AdvertiseAddress(), caller).SerialNumber)
}

// Otherwise a client could resume a session from before its authority was removed.
func TestSessionsAreNotResumed(t *testing.T) {
	old, next := certtest.NewAuthority(t), certtest.NewAuthority(t)
	f, cert := files(t, old, "127.0.0.1")
	certs := load(t, config(f))
	n := server(t, "127.0.0.1:0", certs)
	caller := client(t, old, cert)
	caller.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	for range 2 {
		conn, err := tls.Dial("tcp", n.AdvertiseAddress(), caller)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1)) // the server's settings, and a session ticket if it sent any
		require.NoError(t, err)
		require.False(t, conn.ConnectionState().DidResume)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, identify(t, n, over(caller)))
	f.WriteCA(t, next)
	f.Write(t, next.Issue(t, []string{"127.0.0.1"}))
	require.NoError(t, certs.Reload())
	require.True(t, caller.RootCAs.AppendCertsFromPEM(next.PEM))
	require.ErrorIs(t, identify(t, n, over(caller)), peer.ErrNoAnswer)
}

func TestRefusedConnectionsAreLoggedForDebugging(t *testing.T) {
	a := certtest.NewAuthority(t)
	f, _ := files(t, a, "127.0.0.1")
	var log logtest.Buffer
	cfg := config(f)
	cfg.Logger = log.Logger()
	cfg.Logger.SetLevel(hclog.Debug)
	n := server(t, "127.0.0.1:0", load(t, cfg))
	require.Error(t, identify(t, n, over(client(t, a))))
	log.Await(t, "[DEBUG] refused a connection: from=127.0.0.1:")
	require.Contains(t, log.Line("refused"), "tls: client didn't provide a certificate")
}

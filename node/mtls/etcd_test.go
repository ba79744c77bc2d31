package mtls_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node/mtls"
)

// etcdLike runs a server that requires certificates of an authority, and presents one for these hosts.
func etcdLike(t *testing.T, a *certtest.Authority, clients *certtest.Authority, hosts ...string) (address string) {
	t.Helper()
	cert := a.Issue(t, hosts)
	pair, err := tls.X509KeyPair(cert.Cert, cert.Key)
	require.NoError(t, err)
	cfg := client(t, clients)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: cfg.RootCAs})
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{1}) // fails if the client is refused
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	return l.Addr().String()
}

// reach connects to a server by this name, with the current files, and returns the error.
func reach(t *testing.T, certs *mtls.Certificates, address, name string) error {
	t.Helper()
	now, err := certs.EtcdTLS()
	require.NoError(t, err)
	config := now.Clone()
	config.ServerName = name
	conn, err := (&tls.Dialer{Config: config}).DialContext(patient(t), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// A client of etcd presents a certificate of one authority, and verifies that of another, including names and
// addresses. Each connection uses the files of that moment.
func TestForEtcd(t *testing.T) {
	t.Parallel()
	servers, clients, others := certtest.NewAuthority(t), certtest.NewAuthority(t), certtest.NewAuthority(t)
	f := certtest.NewFiles(t)
	f.Write(t, clients.Issue(t, nil))
	f.WriteCA(t, servers)
	certs := load(t, mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, ForEtcd: true, Interval: time.Hour})
	byIP, byName := etcdLike(t, servers, clients, "127.0.0.1"), etcdLike(t, servers, clients, "etcd.example")
	require.NoError(t, reach(t, certs, byIP, "127.0.0.1"))
	require.NoError(t, reach(t, certs, byName, "etcd.example"))
	require.ErrorContains(t, reach(t, certs, byName, "127.0.0.1"), "x509: ", "an IP address counts as much as a name")
	require.ErrorContains(t, reach(t, certs, byIP, "etcd.example"), "x509: ")

	strange := etcdLike(t, others, clients, "127.0.0.1")
	require.ErrorContains(t, reach(t, certs, strange, "127.0.0.1"), "unknown authority")
	f.WriteCA(t, others)
	require.NoError(t, certs.Reload())
	require.NoError(t, reach(t, certs, strange, "127.0.0.1"))
	require.ErrorContains(t, reach(t, certs, byIP, "127.0.0.1"), "unknown authority", "the former one was taken out")
	f.Write(t, others.Issue(t, nil))
	require.NoError(t, certs.Reload())
	require.ErrorContains(t, reach(t, certs, strange, "127.0.0.1"), "remote error: tls: ", "it refuses this one")
}

func TestForEtcdWithFewerFiles(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	f, _ := files(t, a)
	only := load(t, mtls.Config{CAFile: f.CA, ForEtcd: true})
	require.Nil(t, only.Leaf())
	require.Len(t, only.Expiries(), 1)
	now, err := only.EtcdTLS()
	require.NoError(t, err)
	require.Nil(t, now.GetClientCertificate)
	without := load(t, mtls.Config{CertFile: f.Cert, KeyFile: f.Key, ForEtcd: true})
	now, err = without.EtcdTLS()
	require.NoError(t, err)
	require.Nil(t, now.RootCAs, "those of the machine")
	for says, cfg := range map[string]mtls.Config{
		"CertFile and KeyFile belong together": {CertFile: f.Cert, ForEtcd: true},
		"leave these out for etcd":             {CertFile: f.Cert, KeyFile: f.Key, ForEtcd: true, ServerOnly: true},
	} {
		_, err := mtls.New(cfg)
		require.ErrorContains(t, err, says)
	}
	_, err = load(t, config(f)).EtcdTLS()
	require.ErrorContains(t, err, "ForEtcd")
}

// One file may have the certificate, its key and the authorities. It has a single expiry, because metrics name
// the file.
func TestAllInOneFile(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	cert := a.Issue(t, []string{"127.0.0.1"})
	all := filepath.Join(t.TempDir(), "all.pem")
	require.NoError(t, os.WriteFile(all, slices.Concat(cert.Cert, cert.Key, a.PEM), 0o600))
	for _, forEtcd := range []bool{false, true} {
		certs := load(t, mtls.Config{CertFile: all, KeyFile: all, CAFile: all, ForEtcd: forEtcd})
		require.Len(t, certs.Expiries(), 1)
		require.Equal(t, certs.Leaf().NotAfter, certs.Expiries()[0].NotAfter)
	}
}

// If Replaced does not return normally, the files are still read.
func TestReplacedThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for how, leaves := range map[string]func(){"Goexit": runtime.Goexit, "at the disco": func() {
		panic("at the disco")
	}} {
		a := certtest.NewAuthority(t)
		f, _ := files(t, a)
		var log logtest.Buffer
		certs := load(t, mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, Interval: time.Millisecond,
			Logger: log.Logger(), Replaced: func(bool) { leaves() }})
		for range 2 {
			next := a.Issue(t, []string{"127.0.0.1"})
			f.Write(t, next)
			require.Eventually(t, func() bool { return certs.Leaf().SerialNumber.Cmp(next.Serial) == 0 }, time.Minute,
				time.Millisecond, "%s: it is not looked at any more", how)
		}
		require.NoError(t, certs.Reload())
		certs.Close()
		require.Contains(t, log.String(), how)
	}
}

// Files are replaced like in Kubernetes, by switching a link. Half a file, or one of two, changes nothing.
// Replaced is called for each replacement.
func TestLinksAndHalves(t *testing.T) {
	t.Parallel()
	a, b := certtest.NewAuthority(t), certtest.NewAuthority(t)
	dir := t.TempDir()
	mount := func(name string, authority *certtest.Authority, cert certtest.Certificate) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		for file, text := range map[string][]byte{"tls.crt": cert.Cert, "tls.key": cert.Key, "ca.crt": authority.PEM} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), text, 0o600))
		}
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data")))
	}
	first, second := a.Issue(t, nil), b.Issue(t, nil)
	mount("one", a, first)
	var log logtest.Buffer
	var told atomic.Int32
	certs := load(t, mtls.Config{CertFile: filepath.Join(dir, "..data", "tls.crt"),
		KeyFile: filepath.Join(dir, "..data", "tls.key"), CAFile: filepath.Join(dir, "..data", "ca.crt"), ForEtcd: true,
		Interval: time.Millisecond, Logger: log.Logger(),
		Replaced: func(authorities bool) {
			if authorities {
				told.Add(1)
			}
		}})
	mount("two", b, second)
	require.Eventually(t, func() bool { return certs.Leaf().SerialNumber.Cmp(second.Serial) == 0 }, time.Minute,
		time.Millisecond)
	require.Eventually(t, func() bool { return told.Load() == 1 }, time.Minute, time.Millisecond)
	// Half of the key, which stays so for a while.
	key := filepath.Join(dir, "two", "tls.key")
	write := func(text []byte) { // in one step: an empty file would be another unusable content
		require.NoError(t, os.WriteFile(key+".next", text, 0o600))
		require.NoError(t, os.Rename(key+".next", key))
	}
	write(second.Key[:len(second.Key)/2])
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot be used") }, time.Minute,
		time.Millisecond)
	require.Equal(t, second.Serial, certs.Leaf().SerialNumber)
	write(second.Key)
	third := b.Issue(t, nil)
	mount("three", b, third)
	require.Eventually(t, func() bool { return certs.Leaf().SerialNumber.Cmp(third.Serial) == 0 }, time.Minute,
		time.Millisecond)
	certs.Close()
	require.EqualValues(t, 1, told.Load(), "the authorities are the same")
	require.Equal(t, 1, log.Count("cannot be used"), log.String())
	require.Equal(t, 2, log.Count("certificates replaced: new connections use them"), log.String())
}

package daemon

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node/mtls"
)

// writeCertificate writes a certificate for hosts and returns the configuration with its files.
func writeCertificate(t *testing.T, a *certtest.Authority, hosts ...string) (mtls.Config, certtest.Files) {
	t.Helper()
	f := certtest.NewFiles(t)
	f.Write(t, a.Issue(t, hosts))
	f.WriteCA(t, a)
	return mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, Interval: time.Millisecond}, f
}

func TestNodesOverTLS(t *testing.T) {
	t.Parallel()
	a, e := certtest.NewAuthority(t), etcdtest.Start(t)
	cfg := joinConfig(t, e.Endpoint())
	tls, files := writeCertificate(t, a, "127.0.0.1")
	cfg.TLS = tls
	first, log := startLogged(t, cfg)
	cfg = joinConfig(t, e.Endpoint())
	cfg.TLS, _ = writeCertificate(t, a, "127.0.0.1")
	second, other := startLogged(t, cfg)
	require.Eventually(t, func() bool { return len(first.waitReady(t).Nodes) == 2 && len(second.waitReady(t).Nodes) == 2 },
		patience, tick)
	require.Eventually(t, func() bool {
		return (*peer.Node)(first.node).Watchers() == 1 && (*peer.Node)(second.node).Watchers() == 1
	},
		patience, tick, "they watch each other")

	identify := func(option grpc.DialOption) error {
		_, err := peer.Identify(etcdtest.Context(t), first.NodeAddress(), option)
		return err
	}
	stranger, _ := writeCertificate(t, certtest.NewAuthority(t), "127.0.0.1")
	strange, err := mtls.New(stranger)
	require.NoError(t, err)
	defer strange.Close()
	require.NoError(t, identify(first.certs.DialOption()))
	require.ErrorIs(t, identify(strange.DialOption()), peer.ErrNoAnswer)
	require.ErrorIs(t, identify(grpc.WithTransportCredentials(insecure.NewCredentials())), peer.ErrNoAnswer)

	cert := a.Issue(t, []string{"127.0.0.1"})
	files.Write(t, cert)
	log.Await(t, "goversed.tls: certificates replaced: new connections use them: file="+files.Cert+" serial="+
		cert.Serial.String())
	require.NoError(t, identify(second.certs.DialOption()))

	files.Write(t, a.Issue(t, []string{"elsewhere"}))
	log.Await(t, "it is not for 127.0.0.1, at which others call")
	require.Equal(t, cert.Serial, first.certs.Leaf().SerialNumber)
	for _, d := range []*runningDaemon{second, first} {
		d.stop()
		require.NoError(t, d.waitStopped(t))
	}
	require.NotContains(t, log.String()+other.String(), "cannot watch a member")
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	good, _ := writeCertificate(t, a, "localhost")
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no key": {func(c *Config) { c.TLS.KeyFile = "" }, "--node-cert, --node-key and --node-ca belong together: give " +
			"all three"},
		"no authority": {func(c *Config) { c.TLS.CAFile = "" }, "--node-cert, --node-key and --node-ca belong together"},
		"only an authority": {func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "", "" },
			"--node-cert, --node-key and --node-ca belong together"},
		"no such file": {func(c *Config) { c.TLS.CAFile = "/none" }, "--node-ca /none: name a file that this user may read"},
		"not a key": {func(c *Config) { c.TLS.KeyFile = c.TLS.CAFile },
			"--node-key " + good.CAFile + ": name the PEM file"},
		"another host": {func(c *Config) { c.Listen = "127.0.0.1:0" }, "--node-cert " + good.CertFile + ": it is not for " +
			"127.0.0.1, at which others call"},
		"another host to others": {func(c *Config) { c.Advertise = "elsewhere:47001" }, "it is not for elsewhere"},
		"a bad interval": {func(c *Config) { c.TLS.Interval = -1 }, "--node-cert, --node-key and --node-ca: mtls: Interval " +
			"-1ns is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := embeddedConfig(t)
			cfg.Listen, cfg.TLS = "localhost:0", good
			c.change(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
			require.NoDirExists(t, cfg.Etcd.DataDir)
		})
	}
	cfg := embeddedConfig(t)
	cfg.TLS, cfg.Listen = good, "localhost:1"
	require.NoError(t, os.Remove(good.KeyFile))
	require.NoError(t, cfg.Validate(), "it reads no file")
}

// If New fails late, it closes the certificates it opened. Goleak checks that.
func TestCertificatesAreClosedWhereAPortIsInUse(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	cfg := embeddedConfig(t)
	cfg.TLS, _ = writeCertificate(t, a, "127.0.0.1")
	d, err := New(cfg)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, d.node.Close())
		require.NoError(t, d.http.Close())
		d.closeCertificates()
	}()
	listen, http := cfg, cfg
	listen.Listen, http.HTTP = d.NodeAddress(), d.HTTPAddress()
	for _, taken := range []Config{listen, http} {
		_, err := New(taken)
		require.ErrorContains(t, err, "is in use")
	}
}

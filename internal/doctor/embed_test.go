package doctor

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/testkit/certtest"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// embeddedEtcd is what package embedetcd has no field for. The zero value is one member.
type embeddedEtcd struct {
	members int
	quota   int64           // 0: etcd's default
	files   *certtest.Files // of the certificate that it shows to clients; nil: no TLS
}

// tlsOf has etcd show a certificate of the authority, and ask for one.
func tlsOf(t *testing.T, a *certtest.Authority) embeddedEtcd {
	t.Helper()
	files := certtest.NewFiles(t)
	files.Write(t, a.Issue(t, []string{"127.0.0.1"}))
	files.Trust(t, a)
	return embeddedEtcd{files: &files}
}

// startEtcd starts it and returns its endpoints, with commas between, once it serves.
func startEtcd(t *testing.T, e embeddedEtcd) string {
	t.Helper()
	scheme := "http"
	if e.files != nil {
		scheme = "https"
	}
	n := max(e.members, 1)
	var clients, peers, initial []string
	for i := range n {
		for _, list := range []*[]string{&clients, &peers} {
			address, err := port.Servers.Draw("127.0.0.1")
			require.NoError(t, err)
			*list = append(*list, address)
		}
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	dir := t.TempDir()
	var servers []*embed.Etcd
	for i := range n {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("m%d", i), filepath.Join(dir, fmt.Sprint(i))
		cfg.TickMs, cfg.ElectionMs, cfg.UnsafeNoFsync, cfg.BcryptCost = 10, 100, true, uint(bcrypt.MinCost)
		client, peer := url.URL{Scheme: scheme, Host: clients[i]}, url.URL{Scheme: "http", Host: peers[i]}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.InitialCluster, cfg.InitialClusterToken = strings.Join(initial, ","), initial[0]
		cfg.QuotaBackendBytes, cfg.EnableGRPCGateway = e.quota, false
		if e.files != nil {
			cfg.ClientTLSInfo = transport.TLSInfo{CertFile: e.files.Cert, KeyFile: e.files.Key, TrustedCAFile: e.files.CA}
		}
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		server, err := embed.StartEtcd(cfg)
		require.NoError(t, err)
		t.Cleanup(server.Close)
		servers = append(servers, server)
	}
	for _, server := range servers {
		select {
		case <-server.Server.ReadyNotify():
		case <-etcdtest.Context(t).Done():
			t.Fatal("etcd does not serve")
		}
	}
	return strings.Join(clients, ",")
}

package doctor

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// embeddedEtcd configures features for which package embedetcd has no field. The zero value is one member.
type embeddedEtcd struct {
	members int
	quota   int64           // 0: etcd's default
	files   *certtest.Files // of the certificate presented to clients; nil: no TLS
}

// withTLS makes etcd present a certificate of the authority, and require one.
func withTLS(t *testing.T, a *certtest.Authority) embeddedEtcd {
	t.Helper()
	files := certtest.NewFiles(t)
	files.Write(t, a.Issue(t, []string{"127.0.0.1"}))
	files.WriteCA(t, a)
	return embeddedEtcd{files: &files}
}

// startEtcd starts etcd and returns its endpoints, separated by commas, once it serves.
func startEtcd(t *testing.T, e embeddedEtcd) string {
	t.Helper()
	endpoints, _ := startMembers(t, e)
	return endpoints
}

// startMembers is like startEtcd, and also returns the members in the syntax of etcd's flags.
func startMembers(t *testing.T, e embeddedEtcd) (endpoints, initial string) {
	t.Helper()
	n := max(e.members, 1)
	var clients, peers, all []string
	for i := range n {
		clients, peers = append(clients, freeAddress(t)), append(peers, freeAddress(t))
		all = append(all, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	initial = strings.Join(all, ",")
	var servers []*embed.Etcd
	for i := range n {
		servers = append(servers, e.start(t, fmt.Sprintf("m%d", i), clients[i], peers[i], initial, embed.ClusterStateFlagNew))
	}
	for _, server := range servers {
		awaitServing(t, server)
	}
	return strings.Join(clients, ","), initial
}

// addLearner adds a learner to an etcd and returns its endpoint.
func addLearner(t *testing.T, endpoints, initial string) string {
	t.Helper()
	client, peer := freeAddress(t), freeAddress(t)
	_, err := etcdtest.Dial(t, endpoints).MemberAddAsLearner(etcdtest.Context(t), []string{"http://" + peer})
	require.NoError(t, err)
	awaitServing(t, embeddedEtcd{}.start(t, "learner", client, peer, initial+",learner=http://"+peer,
		embed.ClusterStateFlagExisting))
	return client
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

func awaitServing(t *testing.T, server *embed.Etcd) {
	t.Helper()
	select {
	case <-server.Server.ReadyNotify():
	case <-etcdtest.Context(t).Done():
		t.Fatal("etcd does not serve")
	}
}

// start starts one member, which runs until the test ends.
func (e embeddedEtcd) start(t *testing.T, name, client, peer, initial, state string) *embed.Etcd {
	t.Helper()
	scheme := "http"
	if e.files != nil {
		scheme = "https"
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.ClusterState = name, t.TempDir(), state
	cfg.TickMs, cfg.ElectionMs, cfg.UnsafeNoFsync, cfg.BcryptCost = 10, 100, true, uint(bcrypt.MinCost)
	clients, peers := url.URL{Scheme: scheme, Host: client}, url.URL{Scheme: "http", Host: peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.InitialCluster, cfg.InitialClusterToken = initial, "doctor"
	cfg.QuotaBackendBytes, cfg.EnableGRPCGateway = e.quota, false
	if e.files != nil {
		cfg.ClientTLSInfo = transport.TLSInfo{CertFile: e.files.Cert, KeyFile: e.files.Key, TrustedCAFile: e.files.CA}
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// There is no finding about an etcd of three members with certificates and a password, and three nodes with
// mutual TLS and a status page. A doctor without a certificate for nodes finds only that.
func TestHealthyCluster(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	etcd := withTLS(t, authority)
	etcd.members = 3
	endpoints := startEtcd(t, etcd)
	pair, err := tls.LoadX509KeyPair(etcd.files.Cert, etcd.files.Key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority.PEM))
	config := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	enableAccess(t, endpoints, config)

	certs, err := mtls.New(mtls.Config{CertFile: etcd.files.Cert, KeyFile: etcd.files.Key, CAFile: etcd.files.CA})
	require.NoError(t, err)
	t.Cleanup(func() { _ = certs.Close() })
	for range 3 {
		startNode(t, certs, cluster.Config{EtcdAddress: endpoints, EtcdPrefix: clustertest.Prefix, TLS: config, Username: "u",
			Password: "p", LeaderElectionTTL: 10})
	}
	through := func(opts ...grpc.DialOption) func(*Config) {
		return func(cfg *Config) {
			withUser("u", "p")(cfg)
			cfg.Etcd.TLS, cfg.Options = config, opts
		}
	}
	found := examineEtcd(t, "https://"+endpoints, through(certs.DialOption()))
	requireAtMost(t, found, diagnosis.OK) // watches of crash detection may still be opening
	for _, check := range []string{diagnosis.CheckEndpoints, diagnosis.CheckCerts, diagnosis.CheckQuorum,
		diagnosis.CheckAlarms,
		diagnosis.CheckSpace, diagnosis.CheckVersions, diagnosis.CheckLatency, diagnosis.CheckTTL, diagnosis.CheckAccess,
		diagnosis.CheckClocks, diagnosis.CheckPrefix, diagnosis.CheckValues, diagnosis.CheckLeader,
		diagnosis.CheckFallback, diagnosis.CheckShards, diagnosis.CheckAddresses, diagnosis.CheckHTTP,
		diagnosis.CheckCrashes, diagnosis.CheckLeases} {
		requireFound(t, found, check, diagnosis.OK)
	}
	require.Contains(t, found.String(), "3 of 3 voting members")
	require.Contains(t, found.String(), "the clocks of 7 processes agree")

	requireFound(t, examineEtcd(t, endpoints, through()), diagnosis.CheckAddresses, diagnosis.Warning,
		"does not answer from "+
			"here",
		"--node-cert")
}

// enableAccess turns access control on; the user u has the rights of a node.
func enableAccess(t *testing.T, endpoints string, config *tls.Config) {
	t.Helper()
	open, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ","), TLS: config, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = open.Close() }()
	_, err = open.RoleAdd(etcdtest.Context(t), "u")
	require.NoError(t, err)
	for _, r := range access.Ranges(testKeys(t), access.Node) {
		_, err := open.RoleGrantPermission(etcdtest.Context(t), "u", r.Start, r.End,
			clientv3.PermissionType(clientv3.PermReadWrite))
		require.NoError(t, err)
	}
	for _, name := range []string{"u", "root"} {
		_, err := open.UserAdd(etcdtest.Context(t), name, "p")
		require.NoError(t, err)
		_, err = open.UserGrantRole(etcdtest.Context(t), name, name)
		require.NoError(t, err)
	}
	_, err = open.AuthEnable(etcdtest.Context(t))
	require.NoError(t, err)
}

// startNode starts a node with a status page, which runs until the test ends.
func startNode(t *testing.T, certs *mtls.Certificates, cfg cluster.Config) {
	t.Helper()
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0",
		ServerOptions: []grpc.ServerOption{certs.ServerOption()}})
	require.NoError(t, err)
	page, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.HTTPAddress, cfg.DialOptions = page.Addr().String(), []grpc.DialOption{certs.DialOption()}
	c, err := cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	status := httpapi.Serve(page, httpapi.New(c, httpapi.Options{}), nil)
	t.Cleanup(func() { _ = status.Stop(context.Background()) })
	require.NoError(t, c.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
}

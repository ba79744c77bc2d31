package session

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEtcd is an etcd of the test's own and a client over TCP.
func startEtcd(t *testing.T) (*embedetcd.Server, *clientv3.Client) {
	t.Helper()
	server := etcdtest.Start(t)
	return server, etcdtest.Dial(t, server.Endpoint())
}

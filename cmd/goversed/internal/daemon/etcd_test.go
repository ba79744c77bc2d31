package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// The node logs in to its own etcd, over TLS, once etcd has users.
func TestEmbeddedEtcdWithUsersAndTLS(t *testing.T) {
	t.Parallel()
	ca, files := certtest.NewAuthority(t), certtest.NewFiles(t)
	files.Write(t, ca.Issue(t, []string{"127.0.0.1"}))
	files.WriteCA(t, ca)
	cfg := embeddedConfig(t)
	cfg.Etcd.ClientTLS = embedetcd.TLS{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA}
	first, log := startLogged(t, cfg)
	first.waitReady(t)
	require.Contains(t, log.String(), "etcd=https://127.0.0.1:")
	etcdtest.EnableAuth(t, first.etcd.Client(), "secret")
	first.cut()
	first.stop()
	first.waitStopped(t) // etcd refuses it by now

	cfg.Cluster.Username, cfg.Cluster.Password = "root", "wrong"
	require.ErrorIs(t, startDaemon(t, cfg).waitStopped(t), cluster.ErrEtcdDenied)
	cfg.Cluster.Password = "secret"
	second := startDaemon(t, cfg)
	require.Eventually(t, func() bool { // the first node's session must end
		return second.waitReady(t).LeaderID == second.NodeAddress()
	}, patience, tick)
	second.stop()
	require.NoError(t, second.waitStopped(t))
}

// threeConfigs returns the configurations of three nodes with one member of etcd each.
func threeConfigs(t *testing.T) []Config {
	t.Helper()
	addresses, err := port.Restarted.Loopback(6)
	require.NoError(t, err)
	peers, out := map[string]string{}, make([]Config, 3)
	for i := range out {
		peers[fmt.Sprint("m", i)] = addresses[2*i]
		out[i] = embeddedConfig(t)
		out[i].Etcd.Name, out[i].Etcd.Peers = fmt.Sprint("m", i), peers
		out[i].Etcd.ListenClient = addresses[2*i+1]
	}
	return out
}

// If all members stop at once, none waits long for another to take over etcd's leadership.
func TestThreeNodesWithAnEtcdOfTheirOwn(t *testing.T) {
	t.Parallel()
	configs := threeConfigs(t)
	var running []*runningDaemon
	var logs []*logtest.Buffer
	for _, cfg := range configs {
		d, log := startLogged(t, cfg)
		running, logs = append(running, d), append(logs, log)
	}
	for _, d := range running {
		require.Eventually(t, func() bool { return len(d.waitReady(t).Nodes) == 3 }, patience, tick)
	}
	require.Eventually(t, func() bool { return len(running[0].tcpClient.Endpoints()) == 3 }, patience, tick)
	require.Contains(t, logs[0].String(), "embedded etcd serves as one of several members")

	running[2].stop()
	_ = running[2].waitStopped(t) // a request may get no answer while etcd changes its leader
	require.NoError(t, os.RemoveAll(configs[2].Etcd.DataDir))
	configs[2].StartTimeout = 3 * time.Second
	lost, log := startLogged(t, configs[2])
	err := lost.waitStopped(t)
	require.ErrorIs(t, err, embedetcd.ErrMemberLost)
	require.NotContains(t, err.Error(), "\n")
	require.Contains(t, err.Error(), "replace the member by goversed etcd replace m2")
	require.Equal(t, 1, strings.Count(log.String(), "this member of etcd cannot start"), "it tries again quietly")

	began := time.Now()
	for _, d := range running[:2] {
		d.stop()
	}
	for _, d := range running[:2] {
		_ = d.waitStopped(t) // the last of two has no majority
	}
	t.Logf("two of two stopped within %v", time.Since(began))
}

package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/port"
)

// A node that keeps running notices a restored backup and starts over. If the restore bumped the revisions,
// tokens continue to grow; otherwise they go back.
func TestNodesAndARestoredBackup(t *testing.T) {
	t.Parallel()
	for name, bump := range map[string]uint64{"bumped": 1_000_000, "not bumped": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, err := port.Restarted.Loopback(1)
			require.NoError(t, err)
			cfg := embeddedConfig(t)
			cfg.Etcd.ListenClient = address[0]
			first := startDaemon(t, cfg)
			first.waitReady(t)
			backup := filepath.Join(t.TempDir(), "backup.db")
			manager := snapshot.NewV3(zap.NewNop())
			_, err = manager.Save(t.Context(), clientv3.Config{Endpoints: address}, backup)
			require.NoError(t, err)
			for range 100 { // writes after the backup
				_, err = first.etcd.Client().Put(t.Context(), "/other", "x")
				require.NoError(t, err)
			}
			other, log := startLogged(t, joinConfig(t, address[0]))
			for _, n := range []*runningDaemon{first, other} {
				require.Eventually(t, func() bool { return len(n.waitReady(t).Nodes) == 2 }, patience, tick)
			}
			require.NoError(t, first.cluster.Transfer(t.Context(), other.NodeAddress()))
			var before httpapi.Status
			require.Eventually(t, func() bool {
				before = other.waitReady(t)
				return before.LeaderID == other.NodeAddress()
			}, patience, tick)
			elected := make(chan int64, 64) // tokens
			following, ends := context.WithCancel(t.Context())
			var followed sync.WaitGroup
			defer followed.Wait()
			defer ends()
			followed.Go(func() {
				_ = other.cluster.Events().ForEach(following, 0, func(e event.Event) error {
					if e.Type == event.LeaderElected {
						elected <- e.Token
					}
					return nil
				})
			})
			require.Equal(t, before.Token, receiveUntil(t, elected, before.Token))
			first.stop()
			require.NoError(t, first.waitStopped(t))

			require.NoError(t, os.RemoveAll(cfg.Etcd.DataDir))
			require.NoError(t, manager.Restore(snapshot.RestoreConfig{SnapshotPath: backup, Name: "goverse",
				OutputDataDir: cfg.Etcd.DataDir, PeerURLs: []string{"http://127.0.0.1:2380"},
				InitialCluster: "goverse=http://127.0.0.1:2380", InitialClusterToken: "restored-1", RevisionBump: bump,
				MarkCompacted: bump > 0}))
			first = startDaemon(t, cfg)
			first.waitReady(t)
			var after httpapi.Status
			// The sessions and the leader at the time of the backup reappear until their leases expire.
			live := []string{first.NodeAddress(), other.NodeAddress()}
			require.Eventually(t, func() bool {
				return getJSON(t, other.HTTPAddress(), "/cluster/status", &after) == 200 && slices.Contains(live, after.LeaderID) &&
					after.Token != before.Token && after.ClusterReady && len(after.Nodes) == 2
			}, patience, tick)
			if bump > 0 {
				require.Greater(t, after.Token, before.Token)
			} else {
				require.Less(t, after.Token, before.Token, "the reason for --bump-revision")
			}
			require.Contains(t, log.String(), "history")
			require.Equal(t, after.Token, receiveUntil(t, elected, after.Token), "who follows the events is told")
		})
	}
}

// receiveUntil receives from a channel until it gets want.
func receiveUntil(t *testing.T, from <-chan int64, want int64) int64 {
	t.Helper()
	timeout := time.After(patience)
	var last int64
	for last != want {
		select {
		case last = <-from:
		case <-timeout:
			return last
		}
	}
	return last
}

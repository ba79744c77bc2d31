package embedetcd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// bump is the number added to the revisions of the backup.
const bump = 1_000_000_000

// A backup of any member is restored to three members, as in docs/operate/backup.md. They form another cluster, and
// its revisions do not go back.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	cfg := trio(t, nil)
	servers := startAll(t, cfg["a"], cfg["b"], cfg["c"])
	awaitPut(t, servers[0].Client(), "key", "saved")
	first := clusterID(t, servers[0])
	require.Equal(t, "saved", value(t, servers[1].Client(), "key"), "it has it: a member may be behind the others")
	backup := filepath.Join(t.TempDir(), "backup.db")
	manager := snapshot.NewV3(zap.NewNop())
	_, err := manager.Save(patient(t), clientConfig(servers[1].Endpoint()), backup)
	require.NoError(t, err)
	later := awaitPut(t, servers[0].Client(), "key", "lost")
	for _, s := range servers {
		require.NoError(t, s.closeServer(true))
	}
	for name, c := range cfg {
		require.NoError(t, os.RemoveAll(c.DataDir))
		require.NoError(t, manager.Restore(snapshot.RestoreConfig{SnapshotPath: backup, Name: name, OutputDataDir: c.DataDir,
			PeerURLs: []string{"http://" + c.Peers[name]}, InitialCluster: initialCluster(c), InitialClusterToken: "restored-1",
			RevisionBump: bump, MarkCompacted: true}))
	}
	servers = startAll(t, cfg["a"], cfg["b"], cfg["c"])
	require.Equal(t, "saved", value(t, servers[2].Client(), "key"))
	require.NotEqual(t, first, clusterID(t, servers[0]))
	put := awaitPut(t, servers[0].Client(), "key", "new")
	require.Greater(t, put.Header.Revision, later.Header.Revision)
}

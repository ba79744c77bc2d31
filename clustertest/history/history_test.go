package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/clustertest/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFilesOfSeveralProcesses checks that the files of several processes are judged together. Here each node
// stands for a process.
func TestFilesOfSeveralProcesses(t *testing.T) {
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding.Shards = 8 }))
	var paths []string
	var recorders []*history.Recorder
	for i, n := range c.Nodes() {
		paths = append(paths, filepath.Join(t.TempDir(), "node.jsonl"))
		f, err := os.Create(paths[i])
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		rec := history.NewRecorder(f, n.Address())
		rec.AddWithShards(n.Address(), n.Cluster())
		recorders = append(recorders, rec)
	}
	c.WaitLeaderIs(c.Node(0).Address())
	limits := history.Limits{Exempt: map[string]time.Duration{history.LeaseRevoked: time.Second}}
	require.NoError(t, recorders[0].Do(c.Node(0).Address(), history.LeaseRevoked, func() error {
		c.RevokeLease(c.Node(0))
		return nil
	}))
	end := recorders[0].Begin("", "all look on", "")
	c.WaitLeaderIs(c.Node(1).Address())
	end()
	for _, rec := range recorders {
		require.NoError(t, rec.Stop())
	}
	v, err := history.Check(limits, paths...)
	require.NoError(t, err)
	require.True(t, v.OK(), v)
	require.Contains(t, v.String(), "2 processes, 2 nodes")
	require.Contains(t, v.Summary(), "ok")

	v, err = history.Check(limits)
	require.NoError(t, err)
	require.False(t, v.OK(), "nothing was recorded")
	require.NoError(t, os.WriteFile(paths[0], []byte("no line\nof one\n"), 0o600))
	_, err = history.Check(limits, paths...)
	require.Error(t, err)
}

func TestRecord(t *testing.T) {
	c := clustertest.New(t, 2)
	rec := history.Record(t, history.Limits{})
	for i, n := range c.Nodes() {
		rec.Add(fmt.Sprint("node", i), n.Cluster())
	}
	c.Node(0).Kill()
	c.WaitLeaderIs(c.Node(1).Address())
}

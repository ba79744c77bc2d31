package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
)

var (
	rounds = flag.Int("faults.rounds", 3, "how often each fault from outside is done to each place in the queue; 100 "+
		"is the full run")
	changes = flag.Int("faults.changes", 50, "leader changes in a working election; 1000 is the full run")
)

// leakPatience is twice the read time-out of etcd's peer connections, after which
// the last goroutines of a closed cluster end (see embedetcd.Cluster.Close).
const leakPatience = 10 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(leakPatience)
	// goleak itself looks again and again for a while, and then gives up.
	for code == 0 {
		leak := goleak.Find()
		if leak == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, leak)
			code = 1
		}
	}
	os.Exit(code)
}

// brief makes requests time out soon, for tests in which one has to.
func brief(_ int, cfg *cluster.Config) { cfg.RequestTimeout = 300 * time.Millisecond }

// patient is a context that only ends if a test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// queueKeys are the keys of the queue as etcd holds them, first come first.
func queueKeys(t *testing.T, c *Cluster) []string {
	t.Helper()
	resp, err := c.Client().Get(patient(t), c.Keys().Queue(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	var out []string
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Key))
	}
	return out
}

// queued are the addresses in the queue as etcd holds them, first come first.
func queued(t *testing.T, c *Cluster) []string {
	t.Helper()
	resp, err := c.Client().Get(patient(t), c.Keys().Queue(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	var out []string
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Value))
	}
	return out
}

func addresses(nodes []*Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Address())
	}
	return out
}

// caught waits until a request was caught.
func caught(t *testing.T, h *Held) {
	t.Helper()
	select {
	case <-h.Caught():
	case <-patient(t).Done():
		t.Fatal("no such request was made")
	}
}

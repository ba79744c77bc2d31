package leaderelection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
	"github.com/goverse/goverse/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.RunMore()
	goleak.VerifyTestMain(m)
}

// start is a started election at address, stopped at the test's end.
func start(t *testing.T, client *clientv3.Client, address string, change ...func(*Config)) *LeaderElection {
	t.Helper()
	cfg := Config{Client: client, Address: address, TTL: 2 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	le, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, le.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, le.Stop(etcdtest.Context(t))) })
	return le
}

func awaitLeads(t *testing.T, le *LeaderElection) *Term {
	t.Helper()
	require.NoError(t, le.await(etcdtest.Context(t), le.IsLeader))
	return le.Term()
}

// awaitLeader waits until le names the leader at address.
func awaitLeader(t *testing.T, le *LeaderElection, address string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	sub := le.Subscribe()
	defer sub.Close()
	for le.GetLeaderNode() != address {
		select {
		case <-sub.C:
		case <-ctx.Done():
			require.FailNow(t, "not the leader named", "want %q, have %q", address, le.GetLeaderNode())
		}
	}
}

// awaitTail waits until le sees the candidate at address last in the queue.
func awaitTail(t *testing.T, le *LeaderElection, address string) {
	t.Helper()
	_, err := le.mirror.Wait(etcdtest.Context(t), func(s *state.Snapshot) bool {
		return len(s.Queue) > 0 && s.Queue[len(s.Queue)-1].Address == address
	})
	require.NoError(t, err)
}

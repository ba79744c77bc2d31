package leaderelection

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/basetest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pace"
)

func TestMain(m *testing.M) {
	flag.Parse()
	pace.SetParallel(4) // many have five nodes, with short sessions
	goleak.VerifyTestMain(m)
}

// one is an election with its mirror and session, which end when the election is stopped.
type one struct {
	*LeaderElection
	*Participation
	base *basetest.Base
}

// Stop stops the election and ends its session.
func (o *one) Stop(ctx context.Context) error {
	defer o.base.Stop()
	err := o.Withdraw(ctx)
	o.Close()
	return err
}

// keysOf returns the keys under a prefix.
func keysOf(t *testing.T, prefix string) state.Keys {
	t.Helper()
	keys, err := state.NewKeys(prefix)
	require.NoError(t, err)
	return keys
}

// stands returns an election at address that was not started.
func stands(t *testing.T, client *clientv3.Client, address string, change ...func(*MemberConfig)) *one {
	t.Helper()
	cfg := MemberConfig{Process: etcd.Process{Client: client, Keys: keysOf(t, "/goverse"), Address: address}}
	for _, c := range change {
		c(&cfg)
	}
	base := basetest.Start(t, client, cfg.Keys.Prefix(), 2*time.Second)
	cfg.Mirror, cfg.Keeper = base.Mirror, base.Keeper
	le, part, err := NewForMember(cfg)
	require.NoError(t, err)
	return &one{le, part, base}
}

// start returns a started election at address. It is stopped at the end of the test.
func start(t *testing.T, client *clientv3.Client, address string, change ...func(*MemberConfig)) *one {
	t.Helper()
	o := stands(t, client, address, change...)
	require.NoError(t, o.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, o.Stop(etcdtest.Context(t))) })
	return o
}

func awaitLeads(t *testing.T, le *one) *ownTerm {
	t.Helper()
	require.NoError(t, le.waitUntil(etcdtest.Context(t), le.IsLeader))
	return le.currentTerm()
}

// awaitLeader waits until le names the leader at address.
func awaitLeader(t *testing.T, le *one, address string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	sub := le.Subscribe()
	defer sub.Close()
	for le.Leader().Address != address {
		select {
		case <-sub.C:
		case <-ctx.Done():
			require.FailNow(t, "not the leader named", "want %q, have %q", address, le.Leader().Address)
		}
	}
}

// awaitTail waits until le sees the candidate at address last in the queue.
func awaitTail(t *testing.T, le *one, address string) {
	t.Helper()
	_, err := le.mirror.Wait(etcdtest.Context(t), func(s *state.Snapshot) bool {
		return len(s.Queue) > 0 && s.Queue[len(s.Queue)-1].Address == address
	})
	require.NoError(t, err)
}

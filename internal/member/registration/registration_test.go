package registration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The snapshot may still show another process at this address when etcd has already registered this one.
func TestPredecessorIsNotThisProcess(t *testing.T) {
	t.Parallel()
	ctx, client := etcdtest.Context(t), etcdtest.Start(t).Client()
	keys, err := state.NewKeys("/registration")
	require.NoError(t, err)
	const address = "a:1"
	r, err := New(Config{Process: etcd.Process{Client: client, Keys: keys, Address: address}, TTL: 10 * time.Second,
		Record: state.Record{InstanceID: "own", ElectionOnly: true}})
	require.NoError(t, err)
	// Its sessions write no record, as if the snapshot did not show it yet.
	r.Keeper, err = etcdsession.NewKeeper(etcdsession.Config{Process: r.cfg.Process}, etcdsession.Hooks{})
	require.NoError(t, err)
	register := func(instance string) {
		_, err := client.Put(ctx, keys.Node(address), state.Record{InstanceID: instance}.Encode())
		require.NoError(t, err)
	}
	register("former")
	r.Start()
	t.Cleanup(func() {
		require.NoError(t, r.EndSession())
		r.Close()
	})
	_, err = r.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return s.Member(address) != nil })
	require.NoError(t, err)
	_, err = r.Keeper.Wait(ctx, nil)
	require.NoError(t, err)
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = r.AwaitRegistered(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	register("own")
	_, err = r.AwaitRegistered(ctx)
	require.NoError(t, err)
}

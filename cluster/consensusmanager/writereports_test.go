package consensusmanager

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A report may be wanted again before the snapshot shows it. It is written only once.
func TestAReportThatStandsIsNotWrittenAgain(t *testing.T) {
	ctx, client := etcdtest.Context(t), etcdtest.Client(t)
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)

	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: client, Keys: keys}, LagTimeout: 5 * time.Second})
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client},
		TTL: 10 * time.Second}, etcdsession.Hooks{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	running, stop := context.WithCancel(ctx)
	wg.Go(func() { _ = m.Run(running) })
	wg.Go(func() { _ = keeper.Run(running) })
	defer wg.Wait()
	defer stop()
	_, err = keeper.Wait(ctx, nil)
	require.NoError(t, err)
	const address = "a:1"
	put, err := client.Put(ctx, keys.Node(address), "{}")
	require.NoError(t, err)
	_, err = m.Wait(ctx, func(s *state.Snapshot) bool { return s.Revision >= put.Header.Revision })
	require.NoError(t, err)

	h := newShards(Config{Process: etcd.Process{Client: client, Keys: keys, Address: address,
		RequestTimeout: 5 * time.Second}, Mirror: m, Keeper: keeper, Settings: ofShards(8)})
	write := func(r sharding.Report) int64 {
		require.NoError(t, h.writeReport(ctx, &r))
		resp, err := client.Get(ctx, keys.Released(address))
		require.NoError(t, err)
		return resp.Kvs[0].Version
	}
	busy := sharding.Report{Incarnation: put.Header.Revision, Generation: 7, Busy: []int{3}}
	require.EqualValues(t, 1, write(busy))
	require.EqualValues(t, 1, write(busy))
	busy.Busy = nil
	require.EqualValues(t, 2, write(busy), "a straggler has ended")
	busy.Generation = 9
	require.EqualValues(t, 3, write(busy), "it is about another map")
	require.EqualValues(t, 3, write(busy))
}

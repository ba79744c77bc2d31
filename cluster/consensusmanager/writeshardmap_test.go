package consensusmanager

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// A map is written again while etcd does not answer. If an earlier copy was executed, the map counts as written then.
func TestMapIsWrittenAgainWithoutAnAnswer(t *testing.T) {
	for name, first := range map[string]modeletcd.Delivery{
		"the request was lost": {Lost: true},
		"the answer was lost":  {Unanswered: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := modeletcd.New()
				defer model.Close()
				var writes atomic.Int32
				conn := model.Connect("", func(request any) modeletcd.Delivery {
					if _, write := request.(*pb.TxnRequest); write && writes.Add(1) == 1 {
						return first
					}
					return modeletcd.Delivery{}
				})
				other := model.Connect("", func(any) modeletcd.Delivery { return modeletcd.Delivery{} }).Client()
				keys, err := state.NewKeys("/g")
				require.NoError(t, err)
				process := etcd.Process{Client: conn.Client(), Keys: keys}
				keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: process}, etcdsession.Hooks{})
				require.NoError(t, err)
				p := newPlanner(Config{Process: process, Keeper: keeper,
					Mirror: watchcache.New(watchcache.Config{Process: process})}, nil)
				plan, err := sharding.Plan(sharding.Input{Generation: 1, Shards: 4,
					Members: []sharding.Member{{Owner: sharding.Owner{Address: "a:1", Incarnation: 1}}}})
				require.NoError(t, err)
				write := txn.WriteMap(keys, nil, plan.Map, 0)
				var elsewhere sync.WaitGroup
				elsewhere.Go(func() { // the second copy finds a later revision
					<-time.After(leastWriteGap / 2)
					_, _ = other.Put(t.Context(), "/elsewhere", "")
				})
				began := time.Now()
				at, err := p.writeMap(t.Context(), write)
				require.NoError(t, err)
				require.Equal(t, leastWriteGap, time.Since(began))
				require.EqualValues(t, 2, writes.Load())
				elsewhere.Wait()
				require.Equal(t, model.Keys(keys.ShardMap())[0].ModRevision, at)
				_, err = conn.Client().Put(t.Context(), keys.ShardMap(), "of another planner")
				require.NoError(t, err)
				at, err = p.writeMap(t.Context(), write)
				require.NoError(t, err)
				require.Zero(t, at, "another planner wrote")
			})
		})
	}
}

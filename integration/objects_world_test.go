//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
)

// objectWorld has workers with counters, the database with their sums, and a caller: a node of this process
// that owns nothing.
type objectWorld struct {
	*testing.T
	cfg    objectsWorkerConfig
	pool   *pgxpool.Pool
	caller *cluster.Cluster
}

// briefTTL returns a short TTL of workers, in seconds.
func briefTTL() int { return int(pace.TTL(2*time.Second) / time.Second) }

func newObjectWorld(t *testing.T, ttl int, mutant string) *objectWorld {
	t.Helper()
	db := kit.Database(t)
	pool, err := pgxpool.New(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, postgres.CreateTables(t.Context(), pool, ""))
	server := kit.StartEtcd(t, procs.Etcd37)
	w := &objectWorld{T: t, pool: pool, cfg: objectsWorkerConfig{Etcd: server.Endpoint, Postgres: db, Dir: t.TempDir(),
		TTL: ttl, Mutant: mutant}}
	n, err := node.NewNode(node.Config{AdvertiseAddress: kit.Addresses(t, 1)[0]})
	require.NoError(t, err)
	cfg := objectsConfig(server.Endpoint, 10, nil)
	cfg.Observer, cfg.Sharding = true, cluster.Sharding{Off: true}
	w.caller, err = cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	require.NoError(t, w.caller.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, w.caller.Stop(ctx))
	})
	return w
}

// start starts the given number of workers and waits until they have all shards.
func (w *objectWorld) start(workers int) (all []*objectsWorker) {
	w.Helper()
	for range workers {
		all = append(all, startObjectsWorker(w.T, w.cfg))
	}
	w.awaitShared(all)
	return all
}

// shardMap returns the shard map as seen by the caller, or nil.
func (w *objectWorld) shardMap() *sharding.Map {
	if s := inspect.Snapshot(w.caller); s != nil && s.ShardMap != nil {
		return s.ShardMap.Map
	}
	return nil
}

// ownedShards returns the number of shards that a worker owns.
func (w *objectWorld) ownedShards(worker *objectsWorker) (owned int) {
	if m := w.shardMap(); m != nil {
		for _, l := range m.Loads() {
			if l.Owner.Address == worker.address {
				owned += l.Shards
			}
		}
	}
	return owned
}

// checkShared returns an error unless these workers share the shards evenly, with no open move.
func (w *objectWorld) checkShared(workers []*objectsWorker) error {
	m := w.shardMap()
	if m == nil {
		return errors.New("there is no map")
	}
	sum := 0
	for _, worker := range workers {
		owned := w.ownedShards(worker)
		if owned < objectShards/len(workers) {
			return fmt.Errorf("%s owns %d shards", worker.address, owned)
		}
		sum += owned
	}
	if sum != objectShards {
		return fmt.Errorf("they own %d shards", sum)
	}
	snap := inspect.Snapshot(w.caller)
	for move := range m.Moves() {
		if !snap.MoveDone(move) {
			return fmt.Errorf("shard %d is on its way", move.Shard)
		}
	}
	return nil
}

func (w *objectWorld) awaitShared(workers []*objectsWorker) time.Duration {
	w.Helper()
	return procs.Await(w.T, workPatience, fmt.Sprintf("%d workers share the shards", len(workers)), func() error {
		for _, worker := range workers {
			if !worker.Running() {
				w.Fatalf("worker %s ended (%s)", worker.address, worker.State())
			}
		}
		return w.checkShared(workers)
	})
}

// owner returns the address of a key's owner, as seen by the caller.
func (w *objectWorld) owner(key string) string {
	address, _ := w.caller.Objects().Find(key)
	return address
}

// client returns a client of the counter with that key.
func (w *objectWorld) client(key string) probepb.ProbeClient {
	return probepb.NewProbeClient(w.caller.Objects().At(key))
}

// ownedBy returns a key that a worker owns.
func (w *objectWorld) ownedBy(worker *objectsWorker) string {
	w.Helper()
	keys := counterKeys(1000)
	i := slices.IndexFunc(keys, func(key string) bool { return w.owner(key) == worker.address })
	require.GreaterOrEqual(w, i, 0)
	return keys[i]
}

// counterKeys returns the keys of n counters.
func counterKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("counter-", i))
	}
	return keys
}

// stored returns the sums in the database.
func (w *objectWorld) stored() map[string]int64 {
	w.Helper()
	rows, err := w.pool.Query(w.Context(), "select key, state from goverse_objects")
	require.NoError(w, err)
	defer rows.Close()
	sums := map[string]int64{}
	for rows.Next() {
		var key, raw []byte
		require.NoError(w, rows.Scan(&key, &raw))
		var sum wrapperspb.Int64Value
		require.NoError(w, proto.Unmarshal(raw, &sum))
		sums[string(key)] = sum.GetValue()
	}
	require.NoError(w, rows.Err())
	return sums
}

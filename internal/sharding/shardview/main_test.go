package shardview

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

const shards = 12

// world is a cluster's range as etcd holds it.
type world struct {
	t        *testing.T
	keys     state.Keys
	revision int64
	kvs      map[string]state.KV
}

func newWorld(t *testing.T) *world {
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	return &world{t: t, keys: keys, revision: 1, kvs: map[string]state.KV{}}
}

func (w *world) put(key, value string) {
	w.revision++
	kv := state.KV{Key: key, Value: []byte(value), CreateRevision: w.revision, ModRevision: w.revision}
	if old, ok := w.kvs[key]; ok {
		kv.CreateRevision = old.CreateRevision
	}
	w.kvs[key] = kv
}

func (w *world) join(address string, alter ...func(*state.Record)) {
	r := state.Record{Shards: shards}
	for _, f := range alter {
		f(&r)
	}
	w.put(w.keys.Node(address), r.Encode())
}

func (w *world) leave(address string) { delete(w.kvs, w.keys.Node(address)) }

func (w *world) snapshot() *state.Snapshot {
	var kvs []state.KV
	for _, kv := range w.kvs {
		kvs = append(kvs, kv)
	}
	return state.BuildSnapshot(w.keys, 1, w.revision, kvs)
}

// plan assigns the shards to all present members. Its generation is that of the write.
func (w *world) plan(mode sharding.Mode) {
	s := w.snapshot()
	in := sharding.Input{Generation: s.Revision + 1, Shards: shards, Done: s.MoveDone, Mode: mode}
	if s.ShardMap != nil {
		in.Current = s.ShardMap.Map
	}
	for _, m := range s.Members {
		in.Members = append(in.Members, sharding.Member{Owner: sharding.Owner{Address: m.Address,
			Incarnation: m.Incarnation}, Weight: m.Weight})
	}
	result, err := sharding.Plan(in)
	require.NoError(w.t, err)
	w.put(w.keys.ShardMap(), string(result.Map.Encode()))
}

// released makes the member at address report that it has released all but the busy shards.
func (w *world) released(address string, busy ...int) {
	s := w.snapshot()
	r := sharding.Report{Incarnation: s.Member(address).Incarnation, Generation: s.ShardMap.Generation(), Busy: busy}
	w.put(w.keys.Released(address), string(r.Encode()))
}

func draining(r *state.Record) { r.Draining = true }

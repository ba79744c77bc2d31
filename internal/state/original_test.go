package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys of the original goverse are recognised; keys of Goverse, and other foreign keys, are not taken for them.
func TestKeysOfTheOriginalGoverse(t *testing.T) {
	keys := testKeys(t)
	kvs := []KV{{Key: "/goverse/nodes/10.0.0.1:47000", Value: []byte("10.0.0.1:47000")},
		{Key: "/goverse/shard/0", Value: []byte("10.0.0.1:47000,")},
		{Key: "/goverse/shard/8191", Value: []byte("a,a,f=pinned")}}
	for _, f := range BuildSnapshot(keys, 1, 1, kvs).Foreign {
		require.ErrorIs(t, f.Err, ErrOriginalGoverse, f.Key)
	}
	require.Len(t, BuildSnapshot(keys, 1, 1, kvs).Foreign, len(kvs))
	s := BuildSnapshot(keys, 1, 1, nil).Apply(2, []Event{{KV: KV{Key: "/goverse/shard/1", ModRevision: 2}}})
	require.ErrorIs(t, s.Foreign[0].Err, ErrOriginalGoverse)

	others := []KV{{Key: keys.Node("a:1"), Value: []byte(Record{InstanceID: "i"}.Encode())},
		{Key: keys.Node("b:1"), Value: []byte("x")}, {Key: "/goverse/shard/x"}, {Key: "/goverse/shard/-1"},
		{Key: "/other/shard/1"}, {Key: keys.ShardMap()}}
	for _, kv := range others {
		require.False(t, keys.WrittenByOriginal(kv.Key, kv.Value), kv.Key)
	}
	for _, f := range BuildSnapshot(keys, 1, 1, others).Foreign {
		require.NotErrorIs(t, f.Err, ErrOriginalGoverse, f.Key)
	}
}

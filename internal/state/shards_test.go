package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
)

// A corrupted report lets no member take over. Its author knows that it is there, and can write over it.
func TestAnUnreadableReportIsThereAndSaysNothing(t *testing.T) {
	keys, err := NewKeys("/goverse")
	require.NoError(t, err)
	node := KV{Key: keys.Node("a:1"), Value: []byte(Record{}.Encode()), CreateRevision: 3, ModRevision: 3}
	good := KV{Key: keys.Released("a:1"), Value: sharding.Report{Incarnation: 3, Generation: 7}.Encode(),
		CreateRevision: 8, ModRevision: 8}
	move := sharding.Move{Shard: 1, From: sharding.Owner{Address: "a:1", Incarnation: 3}, Since: 7}
	s := BuildSnapshot(keys, 1, 8, []KV{node, good})
	require.True(t, s.MoveDone(move))

	garbled := good
	garbled.Value, garbled.ModRevision = []byte("somebody"), 9
	s = s.Apply(9, []Event{{KV: garbled}})
	require.False(t, s.MoveDone(move))
	require.NotNil(t, s.ReportOf("a:1"))
	require.Equal(t, int64(9), s.ReportOf("a:1").ModRevision)

	s = s.Apply(10, []Event{{KV: KV{Key: garbled.Key, ModRevision: 10}, Deleted: true}})
	require.Nil(t, s.ReportOf("a:1"))
}

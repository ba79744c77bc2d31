package shardplan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// A member that becomes the first in the queue behind an outside leader has to look: neither the leader nor the
// members change with that.
func TestTheQueueConcernsWhoIsToPlan(t *testing.T) {
	w := newWorld(t, cfg)
	lease := func(r *state.Record) { r.Lease = 7 }
	w.put(w.keys.Candidate(5), "outside")
	w.join("a:1", lease)
	node := w.kvs[w.keys.Node("a:1")]
	node.Lease = 7
	w.kvs[node.Key] = node
	before := w.snapshot()
	require.Nil(t, before.Planner())

	after := func(key, value string) *state.Snapshot {
		w.put(key, value)
		kv := w.kvs[key]
		return before.Apply(w.revision, []state.Event{{KV: kv}})
	}
	queued := after(w.keys.Candidate(7), "a:1")
	require.Equal(t, "a:1", queued.Planner().Address)
	require.Equal(t, before.Leader(), queued.Leader())
	require.True(t, ChangeMatters(before, queued))
	require.False(t, ChangeMatters(before, after(w.keys.Candidate(9), "outside too")))
	require.True(t, ChangeMatters(before, after(w.keys.ShardMap(), "somebody")))
	require.True(t, ChangeMatters(before, after(w.keys.Released("a:1"), "somebody")))
	require.True(t, ChangeMatters(before, after(w.keys.Node("b:1"), state.Record{}.Encode())))
}

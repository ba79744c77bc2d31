package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNodeThatServesTooLongIsFound checks that a node is found that still serves a shard of the next owner.
func TestNodeThatServesTooLongIsFound(t *testing.T) {
	l := newLive(t, func(n Node) Node {
		honest := n.Serves
		n.Session = nil // it would reveal the error at once
		var last [liveShards]int64
		n.Serves = func(shard int) (int64, bool) {
			if epoch, yes := honest(shard); yes || n.Name != liveName(2) {
				last[shard] = epoch
				return epoch, yes
			}
			return last[shard], last[shard] != 0
		}
		return n
	})
	l.Eventually(func() bool {
		return l.countServed(2) > 0 && l.countServed(0)+l.countServed(1)+l.countServed(2) == liveShards
	},
		"each has some")
	l.waitSampled()
	l.Node(2).Stop()
	l.Eventually(func() bool { return l.countServed(0)+l.countServed(1) == liveShards }, "the others have all")
	l.waitSampled()
	v := Check(l.finish(), Limits{})
	require.NotEmpty(t, v.Findings)
	for _, f := range v.Findings {
		require.Equal(t, Overlap, f.Kind, v)
		require.NotEqual(t, Leadership, f.Subject)
		require.Equal(t, liveName(2), f.Terms[0].Node)
	}
	t.Log(v.Summary())
}

// countServed returns the number of shards that a node serves.
func (l *live) countServed(node int) (count int) {
	for shard := range liveShards {
		if _, yes := l.Node(node).Cluster().Shards().Serves(shard); yes {
			count++
		}
	}
	return count
}

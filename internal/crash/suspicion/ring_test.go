package suspicion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestTargets(t *testing.T) {
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	var kvs []state.KV
	for i, address := range []string{"a:1", "b:1", "c:1", "d:1"} {
		kvs = append(kvs, state.KV{Key: keys.Node(address), Value: []byte(`{"instance_id":"` + address +
			`"}`), CreateRevision: int64(i + 1), ModRevision: int64(i + 1)})
	}
	s := state.BuildSnapshot(keys, 1, 10, kvs)
	targets := func(address string, k int, dead ...string) []string {
		out := []string{}
		for _, m := range WatchTargets(s, Self{Address: address, InstanceID: address}, k, func(m *state.Member) bool {
			for _, d := range dead {
				if d == m.Address {
					return false
				}
			}
			return true
		}) {
			out = append(out, m.Address)
		}
		return out
	}
	require.Equal(t, []string{"b:1", "c:1"}, targets("a:1", 2))
	require.Equal(t, []string{"d:1", "a:1"}, targets("c:1", 2), "around")
	require.Equal(t, []string{"b:1", "c:1", "d:1"}, targets("a:1", 9), "never itself, nobody twice")
	require.Equal(t, []string{"b:1", "c:1", "d:1"}, targets("a:1", 2, "c:1"), "and who stands behind a dead one")
	require.Equal(t, []string{"b:1", "c:1", "d:1"}, targets("a:1", 2, "b:1", "c:1", "d:1"))
	require.Empty(t, targets("x:1", 2), "not registered")
	require.Empty(t, WatchTargets(s, Self{Address: "a:1", InstanceID: "another"}, 2,
		func(*state.Member) bool { return true }),
		"a predecessor is")
	require.Empty(t, targets("a:1", 0))
}

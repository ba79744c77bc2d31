package suspicion

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// snapshotOf returns a snapshot with a member at each address. Their instances are named like the addresses.
func snapshotOf(t *testing.T, addresses ...string) *state.Snapshot {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	var kvs []state.KV
	for i, address := range addresses {
		kvs = append(kvs, state.KV{Key: keys.Node(address), Value: []byte(`{"instance_id":"` + address + `"}`),
			CreateRevision: int64(i + 1), ModRevision: int64(i + 1)})
	}
	return state.BuildSnapshot(keys, 1, 10, kvs)
}

// targetsOf returns the addresses that the member at address watches, if those in dead do not count.
func targetsOf(s *state.Snapshot, address string, k int, dead ...string) []string {
	out := []string{}
	for _, m := range WatchTargets(s, Self{Address: address, InstanceID: address}, k, func(m *state.Member) bool {
		return !slices.Contains(dead, m.Address)
	}) {
		out = append(out, m.Address)
	}
	return out
}

// The order of the hashes is c, a, d, b.
func TestTargets(t *testing.T) {
	s := snapshotOf(t, "a:1", "b:1", "c:1", "d:1")
	for address, scatter := range map[string]uint64{"a:1": 1, "b:1": 3, "c:1": 0, "d:1": 2} {
		s.Member(address).Scatter = scatter
	}
	for _, test := range []struct {
		of   string
		k    int
		dead []string
		want []string
		why  string
	}{
		{of: "a:1", k: 2, want: []string{"b:1", "d:1"}, why: "one by address, one by hash"},
		{of: "b:1", k: 2, want: []string{"c:1"}, why: "c has b before it in both orders, a has d and c"},
		{of: "c:1", k: 2, want: []string{"d:1", "a:1"}},
		{of: "d:1", k: 2, want: []string{"a:1", "b:1", "c:1"}, why: "c has b before it in both orders"},
		{of: "a:1", k: 9, want: []string{"b:1", "d:1", "c:1"}, why: "never itself, none twice"},
		{of: "a:1", k: 1, want: []string{"b:1"}},
		{of: "a:1", k: 1, dead: []string{"b:1"}, want: []string{"b:1", "c:1"}, why: "and the one behind a dead one"},
		{of: "a:1", k: 2, dead: []string{"b:1", "c:1", "d:1"}, want: []string{"b:1", "c:1", "d:1"}, why: "all are dead"},
		{of: "x:1", k: 2, want: []string{}, why: "not registered"},
		{of: "a:1", k: 0, want: []string{}},
	} {
		require.Equal(t, test.want, targetsOf(s, test.of, test.k, test.dead...), "%s, %d, %v: %s", test.of, test.k, test.dead,
			test.why)
	}
	require.Empty(t, WatchTargets(s, Self{Address: "a:1", InstanceID: "another"}, 2,
		func(*state.Member) bool { return true }), "a predecessor is")
}

// Each living member is watched by k living ones if there are so many, and by the one before it in the order of
// addresses. So is each dead one, by those that would watch it if it lived.
func TestEachMemberHasItsWatchers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, k := 1+rnd.IntN(12), 1+rnd.IntN(4)
		var addresses, living, dead []string
		for i := range n {
			address := fmt.Sprintf("10.0.0.%02d:%d", i, rnd.IntN(9000))
			addresses = append(addresses, address)
			if rnd.IntN(4) == 0 {
				dead = append(dead, address)
			} else {
				living = append(living, address)
			}
		}
		s := snapshotOf(t, addresses...)
		watchers := map[string][]string{}
		for _, address := range living {
			for _, target := range targetsOf(s, address, k, dead...) {
				require.NotContains(t, watchers[target], address, "watched twice")
				watchers[target] = append(watchers[target], address)
			}
		}
		for i, address := range addresses {
			others := slices.DeleteFunc(slices.Clone(living), func(a string) bool { return a == address })
			require.Len(t, watchers[address], min(k, len(others)), "%s of %v, without %v, k %d", address, addresses, dead, k)
			for j := 1; j < n; j++ {
				if before := addresses[(i-j+n)%n]; slices.Contains(living, before) {
					require.Contains(t, watchers[address], before)
					break
				}
			}
		}
	}
}

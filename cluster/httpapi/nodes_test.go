package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
)

func TestNodeOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := cluster.MemberRow{Member: cluster.Member{Address: leaderAt, Incarnation: 4, InstanceID: "id", Hostname: "host",
		HTTPAddress: "host:80", Version: "v1", Labels: map[string]string{"zone": "a"}, Weight: 2, Draining: true,
		RoundTrip: 50 * time.Millisecond, Goverse: "v0.9.0", OldestFormat: 1, NewestFormat: 2},
		State: cluster.MemberLeader, Place: 1, SeenSince: at, Owned: 7}
	want := Node{Address: leaderAt, Incarnation: 4, InstanceID: "id", Hostname: "host", APIURL: "http://host:80",
		State: "leader", Place: 1, Draining: true, SeenSince: &at, Health: "healthy", Version: "v1",
		Labels: map[string]string{"zone": "a"}, Weight: 2, RoundTripMS: 50, Shards: 7, Goverse: "v0.9.0", OldestFormat: 1,
		NewestFormat: 2}
	require.Equal(t, want, newNode(m))
	m.ElectionFailed, m.HTTPAddress, m.SeenSince = "denied", "https://host:443", time.Time{}
	want.ElectionFailed, want.Health, want.APIURL, want.SeenSince = "denied", "degraded", "https://host:443", nil
	require.Equal(t, want, newNode(m))
	m.Silent, m.SilentTo = 4900*time.Millisecond, 2
	silent := newNode(m)
	require.Equal(t, []any{"silent", int64(4), 2}, []any{silent.Health, silent.SilentSeconds, silent.SilentTo})
	m.Suspected = true
	require.Equal(t, "suspected", newNode(m).Health)
	require.True(t, newNode(cluster.MemberRow{Member: cluster.Member{Address: "id", ElectionOnly: true}}).ElectionOnly)
}

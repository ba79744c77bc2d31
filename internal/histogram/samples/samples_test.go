package samples

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/stats"
)

func TestRing(t *testing.T) {
	t.Parallel()
	r := NewRing[int](3)
	require.Empty(t, r.All())
	for i := range 8 {
		r.Add(i)
		var want []int
		for n := max(0, i-2); n <= i; n++ {
			want = append(want, n)
		}
		require.Equal(t, want, r.All(), "the newest three in order")
	}
	all := r.All()
	r.Add(8)
	require.Equal(t, []int{5, 6, 7}, all, "a result does not change")
	var none Ring[int]
	none.Add(1)
	require.Empty(t, none.All())
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at returns a reading so long after noon, of a node with n calls a second, one in ten of which fails.
func at(d time.Duration, n int64) Reading {
	s := int64(d / time.Second)
	return Reading{At: noon.Add(d), Lag: n, RenewalsFailed: s,
		Renewals:  stats.Durations{Count: s, Sum: time.Duration(s) * 3 * time.Millisecond},
		Failovers: stats.Durations{Count: s / 40, Sum: time.Duration(s/40) * time.Second},
		Queued:    stats.Durations{Count: s, Sum: time.Duration(s) * 5 * time.Millisecond},
		Services:  map[string]Calls{"a": {Ended: n * s, Failed: n * s / 10}, "b": {}},
		Turns:     []int64{0, n * s, 2 * n * s}}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	was, is := at(20*time.Second, 10), at(41*time.Second, 10)
	require.InDelta(t, 0.003, Between(was, is).RenewalSeconds, 1e-9)
	s := Between(was, is)
	s.RenewalSeconds = 0
	require.Equal(t, stats.Sample{Time: noon.Add(40 * time.Second), Seconds: 21, RenewalsFailed: 21, Failovers: 1,
		LeaderlessSeconds: 1, Calls: 210, Failed: 21, Queued: 21, QueuedSeconds: 0.105, Lag: 10}, s)
	require.Zero(t, Between(is, is).RenewalSeconds, "without a renewal")
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var h History
	require.Empty(t, h.After(time.Time{}))
	require.Empty(t, h.ServiceRates(at(0, 1)))
	require.Empty(t, h.Busy(at(0, 1)))
	h.Add(at(7*time.Second, 10))
	require.Empty(t, h.After(time.Time{}), "one reading is no interval")
	for i := range Limit + 5 {
		h.Add(at(time.Duration(i+1)*Every, 10))
	}
	all := h.After(time.Time{})
	require.Len(t, all, Limit)
	last := noon.Add((Limit + 5) * Every)
	require.Equal(t, last, all[Limit-1].Time)
	require.Len(t, h.After(last.Add(-2*Every)), 2)
	require.Empty(t, h.After(last))

	now := at((Limit+5)*Every+10*time.Second, 10)
	require.InDelta(t, 10, h.ServiceRates(now)["a"].Calls, 0.1)
	require.InDelta(t, 1, h.ServiceRates(now)["a"].Failed, 0.1)
	require.Zero(t, h.ServiceRates(now)["b"])
	busy := h.Busy(now)
	require.Len(t, busy, 2, "a shard without turns is not busy")
	require.Equal(t, []int{2, 1}, []int{busy[0].Shard, busy[1].Shard}, "the busiest first")
	require.InDelta(t, 20, busy[0].PerSecond, 0.1)

	h.Add(at((Limit+5)*Every+time.Second, 10))
	require.Len(t, h.After(last.Add(-Every)), 1, "a second reading in an interval adds no sample")
}

func TestMerge(t *testing.T) {
	t.Parallel()
	one := []stats.Sample{{Time: noon, Calls: 1, Lag: -1, RenewalSeconds: 2, Failovers: 1, LeaderlessSeconds: 3},
		{Time: noon.Add(Every), Calls: 2, Lag: 5}}
	two := []stats.Sample{{Time: noon.Add(Every), Calls: 3, Failed: 1, Lag: 7, RenewalSeconds: 1, Seconds: 20},
		{Time: noon, Lag: -1, Failovers: 1, LeaderlessSeconds: 3}}
	both := []stats.Sample{one[0], {Time: noon.Add(Every), Calls: 5, Failed: 1, Lag: 12, RenewalSeconds: 1, Seconds: 20}}
	require.Equal(t, both, Merge([][]stats.Sample{one, two}))
	require.Empty(t, Merge(nil))
	var many []stats.Sample
	for i := range Limit + 10 {
		many = append(many, stats.Sample{Time: noon.Add(time.Duration(i) * Every)})
	}
	require.Len(t, Merge([][]stats.Sample{many}), Limit, "a node's answer does not make it longer")
}

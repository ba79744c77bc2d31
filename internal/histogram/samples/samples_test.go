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
	is.At = noon.Add(59 * time.Second)
	require.Equal(t, noon.Add(40*time.Second), Between(was, is).Time, "a late reading")
	is.At = noon.Add(41 * time.Second).In(time.FixedZone("east", 3600))
	require.Equal(t, s.Time, Between(was, is).Time, "equal times of all nodes are equal as keys of a map")
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

// counted returns a reading of a node with one service and shards.
func counted(d time.Duration, service string, ended int64, turns ...int64) Reading {
	return Reading{At: noon.Add(d), Services: map[string]Calls{service: {Ended: ended, Failed: ended / 2}}, Turns: turns}
}

// Rates cover the time from the last reading but one, however the calls are spread over it.
func TestRatesCoverTwoIntervals(t *testing.T) {
	t.Parallel()
	var h History
	h.Add(counted(0, "a", 0, 0, 0))
	h.Add(counted(Every, "a", 100, 100, 100))
	h.Add(counted(2*Every, "a", 400, 100, 400))
	now := counted(2*Every+10*time.Second, "a", 400, 160, 400)
	require.Equal(t, map[string]Rates{"a": {Calls: 10, Failed: 5}}, h.ServiceRates(now))
	require.Equal(t, []ShardRate{{1, 10}, {0, 2}}, h.Busy(now))
	require.Nil(t, h.Busy(counted(3*Every, "a", 400, 500)), "another number of shards")

	// A service that is new since then has all its calls in that time.
	now.Services["b"] = Calls{Ended: 60}
	require.Equal(t, Rates{Calls: 2}, h.ServiceRates(now)["b"])
	now.At = noon.Add(3 * Every)
	h.Add(now)
	require.EqualValues(t, 60, h.After(noon.Add(2 * Every))[0].Calls)

	var turns []int64
	for n := range MaxBusy + 2 {
		turns = append(turns, int64(n))
	}
	h = History{}
	h.Add(counted(0, "a", 0, make([]int64, len(turns))...))
	busy := h.Busy(counted(time.Second, "a", 0, turns...))
	require.Len(t, busy, MaxBusy)
	require.Equal(t, ShardRate{MaxBusy + 1, MaxBusy + 1}, busy[0])
	require.Nil(t, h.Busy(counted(0, "a", 0, turns...)), "no time has passed")
}

// After a pause of the process, one sample covers all of it. After the clock was set back, no sample is in the future,
// covers less than no time, or is out of order.
func TestHistoryOfAnUnsteadyClock(t *testing.T) {
	t.Parallel()
	var h History
	h.Add(at(0, 10))
	h.Add(at(Every, 10))
	h.Add(at(6*Every, 10))
	samples := func() (all []stats.Sample) {
		for _, s := range h.After(time.Time{}) {
			all = append(all, stats.Sample{Time: s.Time, Seconds: s.Seconds, Calls: s.Calls})
		}
		return all
	}
	first := stats.Sample{Time: noon.Add(Every), Seconds: 20, Calls: 200}
	require.Equal(t, []stats.Sample{first, {Time: noon.Add(6 * Every), Seconds: 100, Calls: 1000}}, samples())

	back := func(d time.Duration) Reading { // the counters go on
		r := at(7*Every, 10)
		r.At = noon.Add(d)
		return r
	}
	h.Add(back(3 * Every))
	require.Equal(t, []stats.Sample{first}, samples())
	require.Empty(t, h.ServiceRates(back(3*Every)), "no time has passed")
	h.Add(back(3*Every + time.Second))
	h.Add(back(4 * Every))
	require.Equal(t, []stats.Sample{first, {Time: noon.Add(4 * Every), Seconds: 20}}, samples())
}

func TestMerge(t *testing.T) {
	t.Parallel()
	one := []stats.Sample{{Time: noon, Calls: 1, Lag: -1, RenewalSeconds: 2, Failovers: 1, LeaderlessSeconds: 3},
		{Time: noon.Add(Every), Calls: 2, Lag: 5}}
	two := []stats.Sample{{Time: noon.Add(Every), Calls: 3, Failed: 1, Lag: 7, RenewalSeconds: 1, Seconds: 20,
		RenewalsFailed: 2, Queued: 4, QueuedSeconds: 5}, {Time: noon, Lag: -1, Failovers: 1, LeaderlessSeconds: 3}}
	three := []stats.Sample{{Time: noon.Add(Every), Lag: -1, RenewalSeconds: 0.5, Seconds: 19, RenewalsFailed: 1,
		Queued: 1, QueuedSeconds: 2, Failovers: 2, LeaderlessSeconds: 1}}
	both := []stats.Sample{one[0], {Time: noon.Add(Every), Calls: 5, Failed: 1, Lag: 12, RenewalSeconds: 1, Seconds: 20,
		RenewalsFailed: 3, Queued: 5, QueuedSeconds: 7, Failovers: 2, LeaderlessSeconds: 1}}
	require.Equal(t, both, Merge([][]stats.Sample{one, two, three}))
	require.Equal(t, both, Merge([][]stats.Sample{three, two, one}))
	require.Empty(t, Merge(nil))
	var many []stats.Sample
	for i := range Limit + 10 {
		many = append(many, stats.Sample{Time: noon.Add(time.Duration(i) * Every)})
	}
	require.Equal(t, many[10:], Merge([][]stats.Sample{many}), "the newest, also if a node answers with more")
}

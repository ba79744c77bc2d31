package sharding

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/cluster/shard"
)

// bounds is the slow and simple version of the limits of quotas. It lowers the level from the even one in steps
// finer than any difference between two levels, until the lower limits of all fit. Weights are 1 to 4.
func bounds(room int64, claims []quotaClaim) (low, high []int64) {
	all := int64(0)
	for _, c := range claims {
		all += c.weight
	}
	unit := 24 * all // steps in a level of one
	for level := 24 * room; ; level-- {
		low, high, sum := make([]int64, len(claims)), make([]int64, len(claims)), int64(0)
		for i, c := range claims {
			low[i] = max(level*c.weight/unit, c.pins)
			high[i] = max((level*c.weight+unit-1)/unit, c.pins)
			sum += low[i]
		}
		if sum <= room {
			return low, high
		}
	}
}

// mostKept returns the largest number of shards that can stay where they are. It tries every way to round.
func mostKept(room int64, claims []quotaClaim, low, high []int64) int64 {
	if len(claims) == 0 {
		if room == 0 {
			return 0
		}
		return -1
	}
	best := int64(-1)
	for q := low[0]; q <= high[0]; q++ {
		if rest := mostKept(room-q, claims[1:], low[1:], high[1:]); rest >= 0 {
			best = max(best, rest+min(q, claims[0].load))
		}
	}
	return best
}

func drawClaims(t *rapid.T) (room int64, claims []quotaClaim) {
	for range rapid.IntRange(1, 7).Draw(t, "claims") {
		c := quotaClaim{weight: rapid.Int64Range(1, 4).Draw(t, "weight"), pins: rapid.Int64Range(0, 12).Draw(t, "pins")}
		c.pins = max(c.pins-6, 0)
		c.load = c.pins + rapid.Int64Range(0, 6).Draw(t, "settled")
		room += c.load
		claims = append(claims, c)
	}
	return room + rapid.Int64Range(0, 9).Draw(t, "more"), claims
}

func TestShareAgreesWithTrying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, claims := drawClaims(t)
		low, high := bounds(room, claims)
		kept, sum := int64(0), int64(0)
		quotas := shareByWeight(room, claims)
		for i, q := range quotas {
			require.True(t, low[i] <= q && q <= high[i], "quotas %v are not between %v and %v", quotas, low, high)
			kept += min(q, claims[i].load)
			sum += q
		}
		require.Equal(t, room, sum)
		require.Equal(t, mostKept(room, claims, low, high), kept, "quotas %v", quotas)

		for i := range claims { // carry it out, while part of it is still under way
			claims[i].load = quotas[i]
			claims[i].pins = rapid.Int64Range(claims[i].pins, quotas[i]).Draw(t, "then pinned")
		}
		require.Equal(t, quotas, shareByWeight(room, claims), "what was rebalanced is level")
	})
}

// Without pins the promise is this simple.
func TestShareIsTheShareByWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, claims, weights := rapid.Int64Range(0, shard.MaxCount).Draw(t, "room"), []quotaClaim{}, int64(0)
		equal := rapid.Bool().Draw(t, "equal")
		for range rapid.IntRange(1, 50).Draw(t, "claims") {
			c := quotaClaim{weight: 7, load: rapid.Int64Range(0, 2*room/50).Draw(t, "load")}
			if !equal {
				c.weight = rapid.Int64Range(1, MaxWeight).Draw(t, "weight")
			}
			weights += c.weight
			claims = append(claims, c)
		}
		least, most := room, int64(0)
		for i, q := range shareByWeight(room, claims) {
			require.Less(t, (q-1)*weights, room*claims[i].weight, "more than rounded up")
			require.Greater(t, (q+1)*weights, room*claims[i].weight, "less than rounded down")
			least, most = min(least, q), max(most, q)
		}
		if equal {
			require.LessOrEqual(t, most-least, int64(1))
		}
	})
}

// The result does not depend on which member's shards are pinned where, as long as the rest is even.
func TestShareAboveALevel(t *testing.T) {
	pinned := func(pins ...int64) []quotaClaim {
		var out []quotaClaim
		for _, p := range pins {
			out = append(out, quotaClaim{weight: 1, pins: p, load: p})
		}
		return out
	}
	require.Equal(t, []int64{40, 17, 17, 16}, shareByWeight(90, pinned(40, 0, 0, 0)))
	require.Equal(t, []int64{40, 30, 10, 10}, shareByWeight(90, pinned(40, 30, 0, 0)))
	require.Equal(t, []int64{40, 40, 10, 0}, shareByWeight(90, pinned(40, 40, 10, 0)), "there is no more")
	require.Equal(t, []int64{23, 23, 22, 22}, shareByWeight(90, pinned(1, 2, 3, 4)))
	require.Equal(t, []int64{22, 22, 23, 23}, shareByWeight(90, pinned(0, 0, 23, 23)))
	require.Equal(t, []int64{23, 23, 23, 21}, shareByWeight(90, pinned(23, 23, 23, 0)))
}

func TestDealAgreesWithOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants, sum := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 8).Draw(t, "wants"), 0
		for _, w := range wants {
			sum += w
		}
		if sum == 0 {
			return
		}
		n := rapid.IntRange(1, sum).Draw(t, "n")
		want := make([]int, len(wants))
		for range n {
			most := 0
			for i := range wants {
				if wants[i]-want[i] > wants[most]-want[most] {
					most = i
				}
			}
			want[most]++
		}
		require.Equal(t, want, distribute(wants, n))
	})
}

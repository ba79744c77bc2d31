package sharding

import (
	"slices"
	"sort"
)

// quotaClaim describes one member that takes part in the sharing of shards.
type quotaClaim struct {
	weight int64 // from 1 to MaxWeight
	pins   int64 // shards that it cannot lose
	load   int64 // shards that it has, including pins
}

// shareByWeight divides room shards among the claims and returns their quotas. room is at least the number of all pins.
// Without pins each claim gets its share by weight, rounded down or up. The number of claims rounded up is
// fixed; first come those that would otherwise lose a shard, then the others in order.
//
// Think of members as vessels as wide as their weight, filled up to a level (shards per weight). A member with
// pins above the level has exactly its pins. Any other has between floor and ceil of level times weight, but
// not less than its pins. The level is as near to the even one as the number of shards allows, so it depends
// only on the shards that members cannot lose. Thus a rebalanced map stays level: pins at or below a quota do
// not change the quotas.
func shareByWeight(room int64, claims []quotaClaim) []int64 {
	level := ratio{room, 0}
	for _, c := range claims {
		level.weight += c.weight
	}
	quotas, sum := make([]int64, len(claims)), int64(0)
	for i, c := range claims {
		quotas[i] = max(level.shards*c.weight/level.weight, c.pins)
		sum += quotas[i]
	}
	for sum > room {
		level = lowerLevel(level, claims, quotas)
		for i, c := range claims {
			if quotas[i] > c.pins && !(ratio{quotas[i], c.weight}).lessThan(level) {
				quotas[i]--
				sum--
			}
		}
	}
	for _, keeps := range []bool{true, false} {
		for i, c := range claims {
			low := quotas[i]
			if sum < room && (ratio{low, c.weight}).lessThan(level) && (c.load > low) == keeps {
				quotas[i]++
				sum++
			}
		}
	}
	return quotas
}

// lowerLevel returns the next level below which a quota is one less.
func lowerLevel(level ratio, claims []quotaClaim, quotas []int64) ratio {
	next := ratio{0, 1}
	for i, c := range claims {
		if r := (ratio{quotas[i], c.weight}); quotas[i] > c.pins && next.lessThan(r) {
			next = r
		}
	}
	return next
}

// ratio is shards per weight. With at most shard.MaxCount shards, and MaxWeight for each of fewer than two
// million members, its products do not overflow.
type ratio struct{ shards, weight int64 }

func (r ratio) lessThan(other ratio) bool { return r.shards*other.weight < other.shards*r.weight }

// distribute divides n things among claims for wants[i] things each and returns the shares. n is at least 1 and at
// most the sum of wants. Each thing goes to the claim that lacks most at that point, and of equal ones to the
// first.
func distribute(wants []int, n int) []int {
	above := func(level int) int { // the sum of all wants above a level
		sum := 0
		for _, w := range wants {
			sum += max(w-level, 0)
		}
		return sum
	}
	level := sort.Search(slices.Max(wants), func(level int) bool { return above(level+1) < n })
	gets, over := make([]int, len(wants)), above(level)-n
	for i := len(wants) - 1; i >= 0; i-- {
		gets[i] = max(wants[i]-level, 0)
		if over > 0 && gets[i] > 0 {
			gets[i]--
			over--
		}
	}
	return gets
}

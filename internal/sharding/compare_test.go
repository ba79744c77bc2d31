package sharding

import (
	"slices"

	"github.com/stretchr/testify/require"
)

// before is the state of one shard that a plan must respect.
type before struct {
	owner    Owner // may be gone
	owned    bool  // by a living member
	epoch    int64
	move     Move
	open     bool // there is a move that is not done
	pinned   bool
	mustMove bool
}

func (w *world) before(in Input) []before {
	out := make([]before, in.Shards)
	for shard := range out {
		b := &out[shard]
		if in.Current != nil {
			b.owner, _ = in.Current.Owner(shard)
			b.epoch = in.Current.Epoch(shard)
			b.move, b.open = in.Current.Move(shard)
		}
		b.owned = w.lives(b.owner)
		b.open = b.open && w.lives(b.move.From) && !in.Done(b.move)
		b.pinned = b.owned && b.open
		b.mustMove = !b.owned || !b.pinned && !slices.ContainsFunc(in.Members,
			func(m Member) bool { return m.Owner == b.owner && !m.Excluded })
	}
	return out
}

// compare checks a plan against all its promises, and its moves against all other assignments.
func compare(w *world, in Input, r Result) {
	takers := slices.DeleteFunc(slices.Clone(in.Members), func(m Member) bool { return m.Excluded })
	if len(takers) == 0 {
		require.Equal(w, Result{Map: in.Current}, r)
		return
	}
	counted, old := Result{Map: r.Map}, w.before(in)
	for shard, b := range old {
		is, owned := r.Map.Owner(shard)
		move, open := r.Map.Move(shard)
		require.True(w, owned && w.lives(is), "shard %d has no owner", shard)
		if r.MovedShards() == 0 {
			require.Same(w, in.Current, r.Map)
			break
		}
		switch given := r.Map.Epoch(shard) == in.Generation; {
		case !given:
			require.False(w, b.mustMove, "shard %d had to move", shard)
			require.Equal(w, b.owner, is, "a new owner at the old epoch")
			require.Equal(w, b.epoch, r.Map.Epoch(shard))
			require.Equal(w, b.open, open, "open moves stay, and others go")
			if open {
				require.Equal(w, b.move, move)
			}
			continue
		case b.pinned:
			w.Fatalf("shard %d had an open move", shard)
		case !b.owned:
			counted.Assigned++
			require.Equal(w, b.open, open, "an open move is inherited, and there is no other")
			if open {
				require.Equal(w, b.move, move)
			}
		default:
			if b.mustMove {
				counted.Drained++
			} else {
				counted.Rebalanced++
			}
			require.NotEqual(w, b.owner, is, "moved to where it was")
			require.Equal(w, Move{shard, b.owner, in.Generation}, move)
		}
		require.True(w, slices.ContainsFunc(takers, func(m Member) bool { return m.Owner == is }),
			"shard %d was given to who takes none", shard)
	}
	require.Equal(w, counted, r)
	if in.Mode == Repair {
		require.Zero(w, r.Rebalanced)
		return
	}
	require.Equal(w, fewest(old, takers), r.MovedShards(), "there is a level assignment that moves fewer")
}

// fewest tries every level assignment of shards to takers that leaves pinned shards alone, and returns the
// smallest number of moves.
func fewest(old []before, takers []Member) int {
	claims, room := make([]quotaClaim, len(takers)), int64(0)
	for i, m := range takers {
		claims[i].weight = int64(max(m.Weight, 1))
	}
	taker := func(o Owner) int { return slices.IndexFunc(takers, func(m Member) bool { return m.Owner == o }) }
	for _, b := range old {
		i := taker(b.owner)
		if b.pinned && i >= 0 {
			claims[i].pins++
		}
		if !b.pinned || i >= 0 {
			room++
		}
	}
	low, high := bounds(room, claims)
	best, has := len(old)+1, make([]int64, len(takers))
	var try func(shard, moved int)
	try = func(shard, moved int) {
		if shard == len(old) {
			for i := range has {
				if has[i] < low[i] || has[i] > high[i] {
					return
				}
			}
			best = min(best, moved)
			return
		}
		b := old[shard]
		for i, m := range takers {
			if b.pinned && m.Owner != b.owner {
				continue
			}
			has[i]++
			if m.Owner == b.owner {
				try(shard+1, moved)
			} else {
				try(shard+1, moved+1)
			}
			has[i]--
		}
		if b.pinned && taker(b.owner) < 0 { // it stays with an excluded member
			try(shard+1, moved)
		}
	}
	try(0, 0)
	return best
}

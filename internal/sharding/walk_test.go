package sharding

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a small cluster that is planned again and again while members come, go, drain, and release shards at
// random. The planner's knowledge lags behind.
type world struct {
	*rapid.T
	shards     int
	generation int64
	born       int64
	members    []Member
	current    *Map
	truth      map[string]Report // by address: a member's newest report
	known      map[string]Report // the part of it that the planner has seen
	// By shard: members that may be serving, because they were entitled to and have not released it since.
	serve []map[Owner]bool
}

func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, shards: rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6}).Draw(t, "shards"), truth: map[string]Report{},
			known: map[string]Report{}}
		for range w.shards {
			w.serve = append(w.serve, map[Owner]bool{})
		}
		w.join()
		w.join()
		w.plan()
		for range rapid.IntRange(50, 150).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"join", "join", "leave", "exclude", "weigh", "report", "report", "learn", "plan",
				"plan", "plan"}).Draw(t, "step") {
			case "join":
				if len(w.members) < 4 {
					w.join()
				}
			case "leave":
				if len(w.members) > 0 {
					i := w.one()
					w.members = slices.Delete(w.members, i, i+1)
				}
			case "exclude":
				if len(w.members) > 0 {
					i := w.one()
					w.members[i].Excluded = !w.members[i].Excluded
				}
			case "weigh":
				if len(w.members) > 0 {
					w.members[w.one()].Weight = rapid.IntRange(0, 4).Draw(t, "weight")
				}
			case "report":
				if len(w.members) > 0 && w.current != nil {
					w.report(w.members[w.one()].Owner)
				}
			case "learn":
				maps.Copy(w.known, w.truth)
			case "plan":
				w.plan()
			}
			w.serveOn()
		}
	})
}

func (w *world) join() {
	w.born++
	w.members = append(w.members, Member{Owner: Owner{rapid.SampledFrom([]string{"a:1", "b:1", "c:1"}).Draw(w.T,
		"address"), w.born}})
}

func (w *world) one() int {
	who := rapid.SampledFrom(w.members).Draw(w.T, "who").Owner
	return slices.IndexFunc(w.members, func(m Member) bool { return m.Owner == who })
}

func (w *world) lives(o Owner) bool {
	return slices.ContainsFunc(w.members, func(m Member) bool { return m.Owner == o })
}

// done is the rule as the planner can apply it.
func (w *world) done(m Move) bool { return m.Done(w.lives(m.From), w.known[m.From.Address]) }

// report makes a member act on the current map: it releases some of its departing shards, and reports the
// others as busy.
func (w *world) report(o Owner) {
	r := Report{Incarnation: o.Incarnation, Generation: w.current.Generation()}
	for shard := range w.shards {
		if is, _ := w.current.Owner(shard); w.serve[shard][o] && is != o {
			if rapid.Bool().Draw(w.T, "busy") {
				r.Busy = append(r.Busy, shard)
			} else {
				delete(w.serve[shard], o)
			}
		}
	}
	w.truth[o.Address] = r
}

// serveOn lets every entitled owner serve, and checks that no other member does.
func (w *world) serveOn() {
	for shard, serve := range w.serve {
		for o := range serve {
			if !w.lives(o) {
				delete(serve, o)
			}
		}
		if w.current == nil {
			continue
		}
		owner, owned := w.current.Owner(shard)
		move, open := w.current.Move(shard)
		if owned && w.lives(owner) && (!open || move.From == owner || move.Done(w.lives(move.From),
			w.truth[move.From.Address])) {
			serve[owner] = true
		}
		require.LessOrEqual(w, len(serve), 1, "shard %d is served by %v", shard, serve)
	}
}

func (w *world) plan() {
	w.generation += rapid.Int64Range(1, 3).Draw(w.T, "generations")
	in := Input{Generation: w.generation, Shards: w.shards, Current: w.current, Members: w.members, Done: w.done,
		Mode: rapid.SampledFrom([]Mode{Repair, Rebalance}).Draw(w.T, "mode")}
	r := plan(w, in)
	w.current = r.Map

	shuffled := in
	shuffled.Members = rapid.Permutation(in.Members).Draw(w.T, "order")
	again := plan(w, shuffled)
	if r.MovedShards() > 0 {
		require.Equal(w, r.Map.Encode(), again.Map.Encode(), "the order of members matters")
		decoded, err := DecodeMap(r.Map.Encode())
		require.NoError(w, err)
		require.Equal(w, r.Map, decoded)
	}
	again.Map = r.Map
	require.Equal(w, r, again)

	if r.Map != nil {
		next := in
		next.Generation, next.Current = in.Generation+1, r.Map
		require.Same(w, r.Map, plan(w, next).Map, "planning again at once changes something")
	}
	compare(w, in, r)
}

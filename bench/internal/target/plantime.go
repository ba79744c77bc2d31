package target

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
)

const (
	planMembers = 100
	planGoal    = 5.0 // ms
	planRounds  = 500
)

// planTimes holds the results for plans of one kind.
type planTimes struct {
	took *sample.Series
	// moved and fewest are sums over all plans. excess is the largest number of unnecessary moves in one plan,
	// and spread the largest spread.
	moved, fewest, excess, spread int
}

func newPlanTimes(what string) *planTimes {
	return &planTimes{took: sample.Millis("plan: " + what)}
}

// walk simulates a cluster as values only. Its members come and go at random, so its map becomes as uneven as
// one that has been in use for a long time. All handoffs are complete before the next plan.
type walk struct {
	generation int64
	members    []sharding.Member
	current    *sharding.Map

	bootstrap, join, leave, crash *planTimes
	encode, decode                *sample.Series
}

func newWalk() *walk {
	return &walk{bootstrap: newPlanTimes("bootstrap"), join: newPlanTimes("join"), leave: newPlanTimes("leave"),
		crash:  newPlanTimes("crash"),
		encode: sample.Millis("encode the map"), decode: sample.Millis("decode the map")}
}

// round makes a plan for a bootstrap, which does not affect the walk, and one or two plans of each other kind.
func (w *walk) round() error {
	current := w.current
	for len(w.members) < planMembers {
		w.comes()
	}
	w.current = nil
	if err := w.plan(w.bootstrap, sharding.Repair); err != nil {
		return err
	}
	if current != nil {
		w.current = current
	}
	for _, step := range []struct {
		kind *planTimes
		do   func()
	}{
		{w.leave, w.leaves}, {w.join, w.comes}, {w.crash, w.dies}, {w.join, w.comes},
	} {
		step.do()
		if err := w.plan(step.kind, sharding.Rebalance); err != nil {
			return err
		}
		// The members that were leaving are gone now.
		w.members = slices.DeleteFunc(w.members, func(m sharding.Member) bool { return m.Excluded })
	}
	started := time.Now()
	value := w.current.Encode()
	w.encode.Add(time.Since(started))
	started = time.Now()
	if _, err := sharding.DecodeMap(value); err != nil {
		return err
	}
	w.decode.Add(time.Since(started))
	return nil
}

func (w *walk) comes() {
	w.generation++
	w.members = append(w.members, sharding.Member{Owner: sharding.Owner{
		Address: fmt.Sprintf("10.0.%d.%d:47001", w.generation/250, w.generation%250), Incarnation: w.generation}})
}

func (w *walk) leaves() { w.members[rand.IntN(len(w.members))].Excluded = true }

func (w *walk) dies() {
	i := rand.IntN(len(w.members))
	w.members = slices.Delete(w.members, i, i+1)
}

// plan makes the next map like a leader: first the necessary moves, and only if there are none and the mode is
// Rebalance, the optional ones. It times both together.
func (w *walk) plan(kind *planTimes, mode sharding.Mode) error {
	w.generation++
	in := sharding.Input{Generation: w.generation, Shards: shard.DefaultCount, Current: w.current, Members: w.members,
		Done: func(sharding.Move) bool { return true }}
	started := time.Now()
	result, err := sharding.Plan(in)
	if err == nil && result.MovedShards() == 0 && mode == sharding.Rebalance {
		in.Mode = mode
		result, err = sharding.Plan(in)
	}
	kind.took.Add(time.Since(started))
	if err != nil {
		return err
	}
	var takers []sharding.Owner
	for _, m := range w.members {
		if !m.Excluded {
			takers = append(takers, m.Owner)
		}
	}
	n, least := moved(w.current, result.Map), fewest(w.current, shard.DefaultCount, takers)
	kind.moved += n
	kind.fewest += least
	kind.excess = max(kind.excess, n-least)
	kind.spread = max(kind.spread, spread(result.Map))
	w.current = result.Map
	return nil
}

package shardview

import (
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// newStep returns the shards that a plan moves, with their reasons.
func newStep(after time.Duration, s *state.Snapshot, cfg shardplan.Settings, plan sharding.Result) PlanStep {
	st := PlanStep{AfterSeconds: after.Seconds(), Assigned: plan.Assigned, Drained: plan.Drained,
		Rebalanced: plan.Rebalanced,
		Transfers:  []Transfer{}}
	excluded := map[sharding.Owner]bool{} // of living members
	for _, m := range shardplan.PlanMembers(s, cfg) {
		excluded[m.Owner] = m.Excluded
	}
	groups := map[Transfer][]int{}
	for shard := range plan.Map.Shards() {
		if plan.Map.Epoch(shard) != plan.Map.Generation() {
			continue
		}
		to, _ := plan.Map.Owner(shard)
		t := Transfer{Reason: Assigned, To: to.Address}
		if m := s.Map(); m != nil {
			if from, owned := m.Owner(shard); owned {
				t.From = from.Address
				if out, lives := excluded[from]; lives && out {
					t.Reason = Drained
				} else if lives {
					t.Reason = Rebalanced
				}
			}
		}
		groups[t] = append(groups[t], shard)
	}
	for t, shards := range groups {
		t.Count, t.Shards = len(shards), sharding.FormatRanges(shards)
		st.Transfers = append(st.Transfers, t)
	}
	slices.SortFunc(st.Transfers, func(a, b Transfer) int {
		return strings.Compare(string(a.Reason)+"\x00"+a.From+"\x00"+a.To, string(b.Reason)+"\x00"+b.From+"\x00"+b.To)
	})
	return st
}

// nodeLoads returns the loads of all nodes that have shards, will have some, or take part.
func nodeLoads(before, after *sharding.Map, s *state.Snapshot) []NodeLoad {
	byAddress := map[string]NodeLoad{}
	add := func(address string, now, then int) {
		l := byAddress[address]
		byAddress[address] = NodeLoad{address, l.Now + now, l.Then + then}
	}
	for _, m := range s.Members {
		if m.Shards > 0 {
			add(m.Address, 0, 0)
		}
	}
	if before != nil {
		for _, l := range before.Loads() {
			add(l.Owner.Address, l.Shards, 0)
		}
	}
	if after != nil {
		for _, l := range after.Loads() {
			add(l.Owner.Address, 0, l.Shards)
		}
	}
	out := make([]NodeLoad, 0, len(byAddress))
	for _, l := range byAddress {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b NodeLoad) int { return strings.Compare(a.Address, b.Address) })
	return out
}

package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// What stands for package cluster's sharding.go: how a process takes part in the shards,
// and how it hands them over when it stops.

// excluded is the label whose members get no shards.
var excluded = map[string]string{"role": "gateway"}

func (h *host) planning() shardplan.Settings {
	return shardplan.Settings{Shards: h.roles.shards, Window: h.w.window, MinMembers: 1, Exclude: excluded,
		Budget: 20 * h.w.shards}
}

// drainTimeout is Sharding.DrainTimeout.
func (w *world) drainTimeout() time.Duration { return w.ttl }

// recorded is Membership.Recorded, for as long as Stop waits for it.
func (p *process) recorded(then func(marked bool)) {
	if !p.keeper.valid() {
		then(false)
		return
	}
	p.mirror.wait(markTimeout, func(s *state.Snapshot) bool {
		own := s.Member(p.host.address)
		return own != nil && own.Encode() == p.member.record.Encode()
	}, then)
}

// markTimeout is how long Stop waits for the mark that it stops.
const markTimeout = time.Second

// handOver is Cluster.drained.
func (p *process) handOver(then func()) {
	s := p.keeper.session
	if !p.keeper.current {
		p.w.checks.count(StopCut)
		then()
		return
	}
	period := s.claim.Period()
	outcome := StopCut
	p.await(max(p.w.drainTimeout(), 2*requestTimeout), func() bool {
		snap := p.mirror.snapshot
		own := snap.Member(p.host.address)
		switch {
		case !s.validSince(period):
		case !p.owns(snap) && own != nil && own.Incarnation == p.member.incarnation:
			outcome = StopDrained
			if snap.ShardMap != nil && snap.ShardMap.Map != nil {
				p.leaving.generation = snap.ShardMap.Generation()
			}
		case !p.owns(snap):
		case !p.canHandOver(snap):
			outcome = StopLast
		default:
			return false
		}
		return true
	}, func() {
		p.w.checks.count(outcome)
		p.leaving.drained, p.leaving.incarnation = outcome == StopDrained, p.member.incarnation
		then()
	})
}

// relinquish is Cluster.relinquish.
func (p *process) relinquish(then func()) {
	p.holder.leaving = true
	p.holder.poke()
	p.await(p.w.drainTimeout()+workTimeout, func() bool { return p.holder.held() == 0 }, then)
}

// await waits until something holds, by asking again and again.
func (p *process) await(timeout time.Duration, met func() bool, then func()) {
	if timeout <= 0 || met() {
		then()
		return
	}
	p.after(awaitAgain, func() { p.await(timeout-awaitAgain, met, then) })
}

const awaitAgain = 10 * time.Millisecond

// owns is Cluster.owns.
func (p *process) owns(s *state.Snapshot) bool {
	own := s.Member(p.host.address)
	return own != nil && s.ShardMap != nil && s.ShardMap.Map != nil &&
		owned(s.ShardMap.Map, sharding.Owner{Address: own.Address, Incarnation: own.Incarnation}) > 0
}

// owned is how many shards a map gives to an owner.
func owned(m *sharding.Map, o sharding.Owner) int {
	for _, load := range m.Loads() {
		if load.Owner == o {
			return load.Shards
		}
	}
	return 0
}

// canHandOver is Cluster.canHandOver.
func (p *process) canHandOver(s *state.Snapshot) bool {
	taker, planner := false, false
	for _, m := range shardplan.Members(s, p.host.planning()) {
		taker = taker || !m.Excluded && m.Address != p.host.address
	}
	for _, m := range s.Members {
		queued, _ := s.Candidate(m.Lease)
		planner = planner || (queued != nil || m.ElectionFailed) && !m.Stopping && m.Address != p.host.address
	}
	return taker && planner
}

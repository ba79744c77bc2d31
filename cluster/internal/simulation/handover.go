package simulation

import (
	"time"

	"github.com/goverse/goverse/cluster/internal/planning"
	"github.com/goverse/goverse/cluster/sharding"
	"github.com/goverse/goverse/cluster/state"
)

// What stands for package cluster's sharding.go: how a process takes part in the shards,
// and how it hands them over when it stops.

// excluded is the label whose members get no shards.
var excluded = map[string]string{"role": "gateway"}

func (h *host) planning() planning.Settings {
	return planning.Settings{Shards: h.roles.shards, Window: h.w.window, MinMembers: 1, Exclude: excluded, Budget: 20 * h.w.shards}
}

// drainTimeout is Sharding.DrainTimeout.
func (w *world) drainTimeout() time.Duration { return w.ttl }

// recorded is membership.recorded, for as long as Stop waits for it.
func (p *process) recorded(then func()) {
	if !p.keeper.valid() {
		then()
		return
	}
	p.mirror.wait(drainingTimeout, func(s *state.Snapshot) bool {
		own := s.Member(p.host.address)
		return own != nil && own.Encode() == p.member.record.Encode()
	}, func(bool) { then() })
}

// drainingTimeout is how long Stop waits for the draining mark.
const drainingTimeout = time.Second

// handOver is Cluster.emptied, and ConsensusManager.Relinquish after it.
func (p *process) handOver(then func()) {
	if len(p.holder.slots) == 0 {
		then()
		return
	}
	count := StopCut
	p.mirror.wait(p.w.drainTimeout(), func(s *state.Snapshot) bool {
		if s.ShardMap != nil && s.ShardMap.Map != nil {
			p.leaving.generation = s.ShardMap.Generation()
		}
		own := s.Member(p.host.address)
		registered := p.keeper.current && own != nil && own.Incarnation == p.member.incarnation
		switch owns := p.owns(s); {
		case registered && !owns:
			count = StopEmptied
		case registered && !p.relieved(s):
			count = StopLast
		case registered || p.keeper.current && owns && p.relieved(s):
			return false
		}
		return true
	}, func(bool) {
		p.w.checks.count(count)
		p.leaving.emptied, p.leaving.incarnation = count == StopEmptied, p.member.incarnation
		p.holder.leaving = true
		p.holder.poke()
		if p.holder.held() == 0 {
			then()
			return
		}
		p.holder.idle = append(p.holder.idle, then)
	})
}

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

// relieved is Cluster.relieved.
func (p *process) relieved(s *state.Snapshot) bool {
	taker, planner := false, false
	for _, m := range planning.Members(s, p.host.planning()) {
		taker = taker || !m.Excluded && m.Address != p.host.address
	}
	for _, q := range s.Queue {
		m := s.MemberOf(q)
		planner = planner || m != nil && !m.Draining && m.Address != p.host.address
	}
	return taker && (planner || s.Acting != nil && s.Acting.Address != p.host.address)
}

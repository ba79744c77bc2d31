package simulation

import (
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/sharding"
)

// dealt is called with every map that etcd accepted from a process: planning was its duty at
// that revision.
func (c *checks) dealt(w *world, p *process, d duty, plan sharding.Result) {
	c.count(PlanAccepted)
	if d.mode == election.ModeFallback {
		c.count(PlanActing)
	} else if d.beside {
		c.count(PlanOutside)
	}
	c.seen.Count[ShardAssigned] += plan.Assigned
	c.seen.Count[ShardDrained] += plan.Drained
	c.seen.Count[ShardRebalanced] += plan.Rebalanced
	if why := w.notPlanner(d); why != "" {
		c.fail("P5", "etcd accepted a map of %s with token %d, but %s", p.id, d.token, why)
	}
	m := plan.Map.NotBefore(w.etcd.get(w.keys.ShardMap()).CreateRevision)
	if g := m.Generation(); g <= c.generation {
		c.fail("P5", "etcd accepted a map of generation %d from %s, after one of %d", g, p.id, c.generation)
	}
	c.generation = m.Generation()
	for shard := range w.shards {
		epoch := m.Epoch(shard)
		if epoch < c.granted[shard] {
			c.fail("P5", "the map of %s gives shard %d away under epoch %d, after one of %d",
				p.id, shard, epoch, c.granted[shard])
		}
		c.granted[shard] = epoch
	}
}

// refused is called with every map that etcd refused.
func (c *checks) refused(w *world, d duty) {
	if w.notPlanner(d) != "" {
		c.count(PlanTooLate)
	} else {
		c.count(PlanOvertaken)
	}
}

// notPlanner is why planning is not the duty of who has that key, "" if it is: the
// leader's, or beside an outside candidate who leads the first member's in the queue.
func (w *world) notPlanner(d duty) string {
	e := w.etcd
	if d.mode == election.ModeFallback {
		switch kv := e.get(w.keys.Acting()); {
		case kv == nil || kv.CreateRevision != d.token:
			return "the acting key is gone"
		case w.head() != nil:
			return "somebody queues"
		}
		return ""
	}
	if kv := e.get(w.keys.Candidate(d.lease)); kv == nil || kv.CreateRevision != d.token {
		return "its key is gone"
	}
	from, _ := e.find(w.keys.Queue())
	to, _ := e.find(w.keys.QueueEnd())
	for _, kv := range e.keys[from:to] {
		p := w.sessionOf(w.keys.Parse(kv.Key).Lease)
		switch {
		case kv.CreateRevision >= d.token || p == nil || !w.registered(p):
		case slices.Contains(w.checks.taints, p.member.incarnation):
			w.checks.count(PlanBeside) // it was no member for a moment
		default:
			return fmt.Sprintf("%s queues before it", p.id)
		}
	}
	return ""
}

// registered reports whether a process's node key stands.
func (w *world) registered(p *process) bool {
	kv := w.etcd.get(w.keys.Node(p.host.address))
	return kv != nil && kv.CreateRevision == p.member.incarnation
}

// sessionOf is the process whose present session is on a lease, nil if it is nobody's.
func (w *world) sessionOf(lease int64) *process {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.keeper.session != nil && p.keeper.session.lease == lease {
			return p
		}
	}
	return nil
}

// awake checks that nobody whose duty planning is sleeps over shards that must move. It
// is looked at now and then.
func (c *checks) awake(w *world) {
	for _, h := range w.hosts {
		p := h.process
		if p == nil || p.paused || h.suspended >= 0 || p.planner.busy || p.planner.poked || p.planner.timed {
			continue
		}
		snap := p.mirror.snapshot
		if d, ok := p.duty(); !ok || snap.Stale || d.mode == "" {
			continue
		}
		if _, o := p.planner.part.Look(snap, h.time()); o.Plan.Assigned+o.Plan.Drained > 0 {
			c.fail("P5", "%s sleeps, though it has to plan: %d shards have no owner, and %d are to leave theirs", p.id,
				o.Plan.Assigned, o.Plan.Drained)
		}
	}
}

// stoppedWell is called when a process has stopped. Of the shards that it had when it had
// handed them over none is its; what a planner gave it later, that had not seen it leave,
// is assigned anew.
func (c *checks) stoppedWell(p *process) {
	kv := p.w.etcd.get(p.w.keys.ShardMap())
	if kv == nil || !p.leaving.drained {
		return
	}
	m, err := sharding.Decode(kv.Value)
	if err != nil {
		return
	}
	me := sharding.Owner{Address: p.host.address, Incarnation: p.leaving.incarnation}
	for shard := range m.Shards() {
		if owner, _ := m.Owner(shard); owner == me && max(m.Epoch(shard), kv.CreateRevision) <= p.leaving.generation {
			c.fail("P5", "%s has stopped, and shard %d is still its", p.id, shard)
		}
	}
}
